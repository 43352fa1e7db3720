"""Jobs and reports as a notebook shows them, and what it takes to import them."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

import spotrun
from spotrun.cli.python.connection import Connection
from spotrun.cli.python.job import Job, Seen
from tests.support.screens.shown_jobs import shown_events, shown_job

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVENTS = shown_events(
    ("2026-03-01T11:10:00Z", "Training", "world 6: 8 workers, entered by Boundary"),
    ("2026-03-01T11:19:00Z", "Reclaimed", "worker 5 on node <img src=x> was taken away"),
)


def job(**status: Any) -> Job:
    body = msgspec.json.encode(shown_job(status=status))
    return Job(Connection(None, None, None), Seen(body, NOW, EVENTS))


def test_a_job_shows_its_state_and_its_timeline() -> None:
    shown = job(message="<script>alert(1)</script>")._repr_html_()

    assert "ml/gpt: Running" in shown
    assert "worker 5 on node &lt;img src=x&gt; was taken away" in shown
    assert "&lt;script&gt;alert" in shown
    assert [one for one in ("<img", "<script", "<style") if one in shown] == []
    assert '<line class="loss" stroke="#cf222e"' in shown


def test_a_job_without_news_shows_itself_too() -> None:
    made = job(decisions=[])
    quiet = Job(made._connection, replace(made._seen, events=()))

    assert "<svg" not in quiet._repr_html_()
    assert repr(quiet).startswith("<Job ml/gpt: Running, workers 6/8, world 7, step 41,200/100,000")


def test_an_object_of_a_newer_operator_is_read_as_far_as_it_is_known() -> None:
    body = {
        "apiVersion": "spotrun.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "gpt", "namespace": "ml", "uid": "u", "managedFields": [{}]},
        "spec": {
            "workers": {"template": {"spec": {"containers": [{"name": "a", "image": "x"}]}}},
            "new": {"a": 1},
        },
        "status": {"phase": "Running", "new": 1, "cost": {"usd": "1.5", "newUsd": "2"}},
    }
    read = Job(Connection(None, None, None), Seen(msgspec.json.encode(body), NOW))

    assert read.status.phase == read.phase == "Running"
    assert read.cost is not None
    assert read.cost.usd == "1.5"
    assert not read.is_over


def test_the_client_brings_nothing_of_the_operator() -> None:
    program = (
        "import sys; from spotrun import Client, TrainingJob, load; print(*sorted("
        "{'.'.join(one.split('.')[:2]) for one in sys.modules if one.startswith('spotrun.')}"
        " | {'kopf', 'prometheus_client', 'uvloop', 'cryptography', 'torch'} & {*sys.modules}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )

    assert {*ran.stdout.split()} <= {
        *("spotrun.api", "spotrun.cli", "spotrun.kube", "spotrun.observe"),
        *("spotrun.money", "spotrun.state", "spotrun.wire"),
    }


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert [one for one in spotrun.__all__ if not getattr(spotrun, one)] == []
    with pytest.raises(AttributeError, match="has no attribute 'Cilent'"):
        _ = spotrun.Cilent
