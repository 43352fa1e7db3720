"""The metrics that an expression of Prometheus reads, as far as they are our own."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tests.support.monitoring.every_metric import Exported

OF_TARGETS = frozenset({"namespace", "pod", "instance"})
"""Labels that a series has from where it was scraped, unless it has them itself."""

_SELECTED = re.compile(r"\b(spotrun_\w+)(?:\{([^}]*)\})?")
_MATCHED = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_GROUPED = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
_OF_HISTOGRAMS = ("_bucket", "_count", "_sum")


@dataclass(frozen=True)
class Selected:
    """One selector: a metric and the labels it is asked for by."""

    metric: str
    labels: frozenset[str]


def selected(expr: str) -> list[Selected]:
    """Every selector of one of our metrics."""
    return [
        Selected(name, frozenset(_MATCHED.findall(matchers)))
        for name, matchers in _SELECTED.findall(expr)
    ]


def mistakes(expr: str, exported: Mapping[str, Exported]) -> list[str]:
    """Metrics that do not exist, and labels that they do not have."""
    found, seen = [], set(OF_TARGETS)
    for one in selected(expr):
        metric = exported.get(one.metric) or _histogram(one.metric, exported)
        if metric is None:
            found.append(f"there is no {one.metric}")
            continue
        has = {*metric.labels, *OF_TARGETS, *(["le"] if metric.kind == "histogram" else [])}
        seen |= has
        found += [f"{one.metric} has no label {label}" for label in sorted(one.labels - has)]
    grouped = {label for group in _GROUPED.findall(expr) for label in re.split(r",\s*", group)}
    return found + [f"nothing here has the label {label}" for label in sorted(grouped - seen)]


def _histogram(name: str, exported: Mapping[str, Exported]) -> Exported | None:
    whole = [name.removesuffix(suffix) for suffix in _OF_HISTOGRAMS if name.endswith(suffix)]
    metric = exported.get(whole[0]) if whole else None
    return metric if metric is not None and metric.kind == "histogram" else None
