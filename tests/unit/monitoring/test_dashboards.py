"""Dashboards are what their source says, and show what the operator exports."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from charts.dashboards import rendered
from tests.support.monitoring.every_metric import exported
from tests.support.monitoring.promql import mistakes, selected

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "charts/spotrun/dashboards").glob("*.json"))
EXPORTED = exported()

every_dashboard = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def panels(file: Path) -> list[dict[str, Any]]:
    found = json.loads(file.read_text())["panels"]
    assert isinstance(found, list)
    return found


def expressions(file: Path) -> list[str]:
    return [target["expr"] for panel in panels(file) for target in panel.get("targets", [])]


def test_the_files_are_what_the_source_says() -> None:
    assert rendered() == {str(file.relative_to(ROOT)): file.read_text() for file in FILES}


@every_dashboard
def test_panels_show_only_what_is_exported(file: Path) -> None:
    wrong = {expr: found for expr in expressions(file) if (found := mistakes(expr, EXPORTED))}

    assert wrong == {}
    assert all(selected(expr) for expr in expressions(file))


@every_dashboard
def test_choices_offer_labels_that_exist(file: Path) -> None:
    variables = json.loads(file.read_text())["templating"]["list"]
    queries = [one["query"]["query"] for one in variables if one["type"] == "query"]

    assert queries
    for query in queries:
        series, _, label = query.removeprefix("label_values(").removesuffix(")").rpartition(", ")
        assert mistakes(f"sum by ({label}) ({series})", EXPORTED) == []


@every_dashboard
def test_every_panel_says_what_it_shows(file: Path) -> None:
    shown = [panel for panel in panels(file) if panel["type"] != "row"]

    assert [panel["title"] for panel in shown if not panel["description"]] == []


@every_dashboard
def test_panels_do_not_cover_each_other(file: Path) -> None:
    cells = [
        {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        for at in (panel["gridPos"] for panel in panels(file))
    ]

    assert not any(one & other for one, other in combinations(cells, 2))
    assert all(x < 24 for cell in cells for x, _ in cell)


@every_dashboard
def test_panels_have_numbers_of_their_own(file: Path) -> None:
    numbers = [panel["id"] for panel in panels(file)]

    assert len(set(numbers)) == len(numbers)
