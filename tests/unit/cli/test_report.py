"""`kubectl tjob report`: the content, and each form that it is written in."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest
import yaml
from typing_extensions import override

from spotrun.cli.cluster.installation import Installation
from spotrun.cli.report.content import Report, cleaned, report_on
from spotrun.cli.report.timeline import timeline
from spotrun.cli.report.writing import WRITERS
from tests.support.screens.shown_jobs import shown_events, shown_job

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVENTS = shown_events(
    ("2026-03-01T11:10:00Z", "Training", "world 6: 8 workers, entered by Boundary"),
    ("2026-03-01T11:19:00Z", "Reclaimed", "worker 5 on node <b>ip</b> was taken away"),
    ("2026-03-01T11:20:00Z", "Placed", "2 workers are asked from spot-a10g at $1.92/h"),
    ("2026-03-01T11:20:10Z", "Training", "world 7: 6 workers, entered by Abort"),
)
MANIFEST: dict[str, Any] = {
    "apiVersion": "spotrun.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {
        "name": "gpt",
        "uid": "u",
        "managedFields": [],
        "annotations": {"spotrun.dev/cost-usd": "38", "team.example/note": "keep"},
    },
    "spec": {"workers": {"max": 8}},
    "status": {"phase": "Running"},
}


def report(**status: Any) -> Report:
    return report_on(shown_job(status=status), MANIFEST, EVENTS, Installation("0.1.0"), NOW)


def rows(title: str, made: Report) -> dict[str, tuple[str, ...]]:
    [section] = [one for one in made.sections if one.title == title]
    return {first: tuple(rest) for first, *rest in section.rows}


def test_a_report_has_what_was_trained_and_what_it_cost() -> None:
    made = report(
        phase="Succeeded",
        conditions=[
            {
                "type": "Complete",
                "status": "True",
                "lastTransitionTime": "2026-03-01T11:48:00Z",
            }
        ],
    )
    assert rows("What was trained", made)["Ended"] == ("2026-03-01 11:48:00 UTC, after 3h",)
    assert rows("With what", made)["Image"] == ("example/gpt:1.0",)
    assert rows("With what", made)["spotrun"] == ("0.1.0",)
    assert rows("What it cost", made)["in pool spot-a10g"] == ("$30.02", "79%")
    assert rows("What was lost", made)["Lost work, for each loss"] == ("$0.95",)


def test_what_decisions_and_events_tell_is_told_once_and_in_order() -> None:
    assert [(f"{one.at:%H:%M:%S}", one.what, one.size) for one in report().moments] == [
        ("11:00:00", "Grow", None),
        ("11:10:00", "World", 8),
        ("11:19:00", "Reclaimed", None),
        ("11:20:00", "Placed", None),
        ("11:20:10", "World", 6),
    ]


def test_the_manifest_is_as_somebody_would_apply_it() -> None:
    assert cleaned(MANIFEST) == {
        "apiVersion": "spotrun.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "gpt", "annotations": {"team.example/note": "keep"}},
        "spec": {"workers": {"max": 8}},
    }


class Elements(HTMLParser):
    """The elements of a page, and the addresses in it."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.addresses: list[str] = []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_needs_nothing_else_and_no_text_becomes_an_element() -> None:
    text = WRITERS["html"](report(message="<script>alert(1)</script>"))
    page = Elements()
    page.feed(text)
    assert {"script", "b", "img", "link"} & {*page.names} == set()
    assert page.addresses == []
    assert "default-src 'none'" in text
    assert "&lt;script&gt;" in text
    assert text.count("<svg") == 1


def test_markdown_keeps_its_tables_whatever_a_message_says() -> None:
    text = WRITERS["markdown"](report(message="a | b\nc <b> *d*"))
    assert "| State | Running: a \\| b c \\<b> \\*d\\* |" in text
    [manifest] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert yaml.safe_load(manifest) == cleaned(MANIFEST)


def test_secrets_are_not_sent_along() -> None:
    env = [
        {"name": "WANDB_API_KEY", "value": "hidden-1"},
        {"name": "HF_TOKEN", "value": "hidden-2"},
        {"name": "DB_PASSWORD", "value": "hidden-3"},
        {"name": "TOKENIZERS_PARALLELISM", "value": "shown"},
    ]
    spec = {"workers": {"template": {"spec": {"containers": [{"name": "trainer", "env": env}]}}}}
    kept = str(cleaned({"spec": spec}))
    assert ("hidden-" in kept, "shown" in kept) == (False, True)


def test_no_text_of_a_manifest_ends_its_fence() -> None:
    text = WRITERS["markdown"](replace(report(), manifest={"x": "```\n<b>"}))
    assert "\n\n````yaml\n" in text


def test_json_is_one_object() -> None:
    made = json.loads(WRITERS["json"](report()))
    assert (made["title"], made["state"], len(made["moments"])) == ("ml/gpt", "Running", 5)


def test_the_line_of_the_timeline_is_the_size_of_the_world() -> None:
    picture = timeline(report().moments, NOW)
    [points] = re.findall(r'points="([^"]*)"', picture)
    heights = [float(point.split(",")[1]) for point in points.split()]
    assert heights == [20.0, 20.0, 55.0, 55.0]
    assert picture.count('class="loss"') == 1


@pytest.mark.parametrize("count", [0, 1])
def test_of_less_than_two_moments_there_is_no_picture(count: int) -> None:
    assert timeline(report().moments[:count], NOW) == ""
