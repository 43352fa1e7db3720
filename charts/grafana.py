"""Grafana dashboards: a panel is a few lines here, but fifty in the JSON that Grafana stores."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

SCHEMA_VERSION = 39  # Grafana 11, which migrates older dashboards by itself
WIDTH = 24

Json = dict[str, Any]

_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True)
class Query:
    """One or more lines of a panel, named by `legend`."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One graph or number, in Grafana's terms where they are short."""

    title: str
    text: str
    queries: Sequence[Query]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 12
    height: int = 8
    is_stacked: bool = False
    colors: dict[str, str] = field(default_factory=dict)  # by legend
    unstacked: Sequence[str] = ()  # legends of lines that are not in the stack
    since: str | None = None  # its own time range, such as now/M for the month so far
    is_name: bool = False  # the legend is shown instead of the value

    def json(self, number: int, x: int, y: int) -> Json:
        """Return the panel as Grafana stores it."""
        is_now = self.kind != "timeseries"
        panel: Json = {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.text,
            "datasource": _DATASOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "targets": [
                {
                    "refId": chr(ord("A") + index),
                    "datasource": _DATASOURCE,
                    "expr": query.expr,
                    "legendFormat": query.legend or "__auto",
                    "instant": is_now,
                    "range": not is_now,
                }
                for index, query in enumerate(self.queries)
            ],
            "fieldConfig": {"defaults": self._defaults(), "overrides": self._overrides()},
            "options": self._options(),
        }
        if self.since is not None:
            panel |= {"timeFrom": self.since, "hideTimeOverride": False}
        return panel

    def _defaults(self) -> Json:
        defaults: Json = {"unit": self.unit}
        if self.kind == "timeseries":
            mode = "normal" if self.is_stacked else "none"
            defaults["custom"] = {
                "fillOpacity": 40 if self.is_stacked else 5,
                "stacking": {"group": "A", "mode": mode},
            }
        return defaults

    def _overrides(self) -> list[Json]:
        alone = {"id": "custom.stacking", "value": {"group": "A", "mode": "none"}}
        colored = (
            (legend, {"id": "color", "value": {"mode": "fixed", "fixedColor": color}})
            for legend, color in self.colors.items()
        )
        return [
            {"matcher": {"id": "byName", "options": legend}, "properties": [is_so]}
            for legend, is_so in (*colored, *((legend, alone) for legend in self.unstacked))
        ]

    def _options(self) -> Json:
        if self.kind == "timeseries":
            return {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}}
        reduced = {"calcs": ["lastNotNull"], "fields": "", "values": False}
        if self.kind == "bargauge":
            return {
                "reduceOptions": reduced,
                "orientation": "horizontal",
                "displayMode": "basic",
            }
        return {"reduceOptions": reduced, "textMode": "name" if self.is_name else "value"}


@dataclass(frozen=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Variable:
    """A selection at the top of a dashboard: the values of a label."""

    name: str
    query: str
    has_all: bool = False

    def json(self) -> Json:
        """Return the variable as Grafana stores it."""
        return {
            "name": self.name,
            "type": "query",
            "datasource": _DATASOURCE,
            "query": {"query": self.query, "refId": self.name},
            "refresh": 2,
            "sort": 1,
            "includeAll": self.has_all,
            "multi": self.has_all,
            "current": {"text": "All", "value": "$__all"} if self.has_all else {},
        }


@dataclass(frozen=True)
class Dashboard:
    """One page."""

    uid: str
    title: str
    rows: Sequence[Row]
    variables: Sequence[Variable]
    since: str

    def json(self) -> Json:
        """Return the dashboard as Grafana stores it."""
        choose = {
            "name": "datasource",
            "type": "datasource",
            "query": "prometheus",
            "label": "Data",
        }
        return {
            "uid": self.uid,
            "title": self.title,
            "tags": ["spotrun"],
            "schemaVersion": SCHEMA_VERSION,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "1m",
            "time": {"from": self.since, "to": "now"},
            "templating": {"list": [choose, *(one.json() for one in self.variables)]},
            "panels": self._placed(),
        }

    def _placed(self) -> list[Json]:
        placed: list[Json] = []
        y = 0
        for row in self.rows:
            heading: Json = {"id": len(placed) + 1, "type": "row", "title": row.title, "panels": []}
            placed.append(heading | {"gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1}})
            x, y, height = 0, y + 1, 0
            for panel in row.panels:
                if x + panel.width > WIDTH:
                    x, y, height = 0, y + height, 0
                placed.append(panel.json(len(placed) + 1, x, y))
                x, height = x + panel.width, max(height, panel.height)
            y += height
        return placed


def stat(
    title: str,
    text: str,
    expr: str,
    unit: str = "short",
    *,
    name: str = "",
    since: str | None = None,
) -> Panel:
    """Return a panel with one number or one name."""
    query = Query(expr, name)
    return Panel(title, text, [query], unit, "stat", 4, 4, since=since, is_name=bool(name))


def selected(metric: str, *matchers: str) -> str:
    """Return the selector of a metric for jobs that match."""
    return f"spotrun_trainingjob_{metric}{{{', '.join(matchers)}}}"
