"""Alerts ask for what the operator exports, and each says what to do."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.monitoring.every_metric import exported
from tests.support.monitoring.promql import mistakes, selected

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "charts/spotrun/alerts").glob("*.yaml"))
RUNBOOKS = ROOT / "docs/runbooks"
HEADINGS = ["What it means", "What to look at", "What to do", "When it is expected"]
EXPORTED = exported()

every_alert = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def rule(file: Path) -> dict[str, Any]:
    """The only rule of a file."""
    (group,) = yaml.safe_load(file.read_text())["groups"]
    (found,) = group["rules"]
    assert isinstance(found, dict)
    return found


@every_alert
def test_a_file_holds_the_one_alert_that_it_is_named_after(file: Path) -> None:
    assert rule(file)["alert"] == file.stem


@every_alert
def test_an_alert_reads_only_what_is_exported(file: Path) -> None:
    expr = rule(file)["expr"]

    assert selected(expr)
    assert mistakes(expr, EXPORTED) == []


@every_alert
def test_an_alert_says_how_bad_it_is_and_where_to_read_on(file: Path) -> None:
    alert = rule(file)

    assert alert["labels"]["severity"] in {"warning", "critical"}
    assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
    assert alert["annotations"]["runbook_url"].endswith(f"docs/runbooks/{file.stem}.md")


@every_alert
def test_a_runbook_says_what_it_means_and_what_to_do(file: Path) -> None:
    text = (RUNBOOKS / f"{file.stem}.md").read_text()

    assert text.startswith(f"# {file.stem}\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS
    assert re.search(rf"^{rule(file)['labels']['severity'].capitalize()}: ", text, re.MULTILINE)
    assert "kubectl " in text


def test_there_is_no_runbook_without_an_alert() -> None:
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == {file.stem for file in FILES}


@pytest.mark.parametrize(
    ("expr", "said"),
    [
        ("sum(spotrun_leader) == 0", []),
        ("spotrun_leadr", ["there is no spotrun_leadr"]),
        (
            'spotrun_trainingjob_workers{status="ready"}',
            ["spotrun_trainingjob_workers has no label status"],
        ),
        ("sum by (queue) (spotrun_leader)", ["nothing here has the label queue"]),
        (
            "sum by (le) (rate(spotrun_trainingjob_reconcile_duration_seconds_bucket[5m]))",
            [],
        ),
        ("spotrun_leader_bucket", ["there is no spotrun_leader_bucket"]),
    ],
)
def test_what_does_not_exist_is_found(expr: str, said: list[str]) -> None:
    assert mistakes(expr, EXPORTED) == said
