"""The ConfigMap that keeps a finished job: what is in it, what is not, and that it fits."""

import json
from typing import Any

from spotrun.act.manifests.report_keeping import (
    MOST_EVENTS_BYTES,
    MOST_JOB_BYTES,
    report_config_map,
)
from spotrun.api.field_types.secret_values import HIDDEN
from spotrun.api.names import REPORT_EVENTS, REPORT_JOB, REPORT_VERSION
from spotrun.kube.resource import Meta
from spotrun.observe.kube_objects import EventObject

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
TOKEN = {"name": "HF_TOKEN", "value": "hf_abc"}


def job(**spec: Any) -> dict[str, Any]:
    container = {"name": "trainer", "image": "x", "env": [TOKEN]}
    return {
        "metadata": {
            "name": "gpt",
            "namespace": "ml",
            "uid": "u",
            "managedFields": [{"manager": "x"}],
            "annotations": {APPLIED: json.dumps(TOKEN), "note": "keep"},
        },
        "spec": {"workers": {"template": {"spec": {"containers": [container]}}}, **spec},
        "status": {"phase": "Succeeded"},
    }


def event(number: int, note: str = "") -> EventObject:
    return EventObject(Meta(name=f"e{number}"), note=note, event_time=f"2026-01-01T00:{number:02}")


def test_the_job_is_kept_as_it_ended_without_what_looks_like_a_secret() -> None:
    made = report_config_map("gpt-x-report", job(), [event(2), event(1)], "1.2.3")
    data = made["data"]
    assert made["metadata"]["labels"]["spotrun.dev/report-of"] == "gpt"
    assert "ownerReferences" not in made["metadata"]  # it outlives the job
    kept = json.loads(data[REPORT_JOB])
    assert kept["status"] == {"phase": "Succeeded"}
    assert kept["metadata"].keys() == {"name", "namespace", "uid", "annotations"}
    assert kept["metadata"]["annotations"] == {"note": "keep"}
    assert "hf_abc" not in json.dumps(made)
    assert HIDDEN in data[REPORT_JOB]
    assert [one["metadata"]["name"] for one in json.loads(data[REPORT_EVENTS])] == ["e1", "e2"]
    assert data[REPORT_VERSION] == "1.2.3"


def test_the_oldest_events_and_then_the_template_give_way_to_what_fits() -> None:
    long = [event(n, "x" * 10_000) for n in range(20)]
    made = report_config_map("r", job(note="y" * MOST_JOB_BYTES), long, "1")["data"]
    assert len(made[REPORT_EVENTS]) <= MOST_EVENTS_BYTES
    names = [one["metadata"]["name"] for one in json.loads(made[REPORT_EVENTS])]
    assert names == [f"e{n}" for n in range(14, 20)]
    assert json.loads(made[REPORT_JOB])["spec"]["workers"]["template"] == {}
