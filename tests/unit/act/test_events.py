"""The manifest of an event, and how many a job may have."""

from collections import deque

from spotrun.act.events import event, may_announce
from spotrun.api.names import Reason
from spotrun.state.actions import Announce
from tests.support.jobs.builders import NOW, a_job


def test_an_event() -> None:
    job = a_job().snapshot()
    made = event(job, Announce(Reason.RECLAIMED, "m" * 2000, is_warning=True), NOW, "operator-0")
    name = made["metadata"]["name"]
    assert name.startswith("job.")
    assert made == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "ns"},
        "eventTime": "2026-03-02T12:00:00.000000Z",
        "reportingController": "spotrun.dev/operator",
        "reportingInstance": "operator-0",
        "action": "Reconcile",
        "type": "Warning",
        "reason": "Reclaimed",
        "note": "m" * 1024,
        "regarding": {
            "apiVersion": "spotrun.dev/v1alpha1",
            "kind": "TrainingJob",
            "namespace": "ns",
            "name": "job",
            "uid": "job-uid",
        },
    }


def test_an_operator_at_a_long_address_may_tell_as_well() -> None:
    job = a_job().snapshot()
    reported = event(job, Announce(Reason.TRAINING, "m"), NOW, instance=f"{'a' * 250}:8443")

    assert reported["reportingInstance"] == "a" * 128


def test_what_is_told_in_another_script_is_cut_as_kubernetes_counts() -> None:
    reported = event(
        a_job().snapshot(), Announce(Reason.TRAINING, "a" + "\u6f22" * 1024), NOW, "one"
    )

    assert reported["note"] == "a" + "\u6f22" * 341
    assert len(reported["note"].encode()) == 1024


def test_ten_an_hour() -> None:
    times: deque[float] = deque()
    assert [may_announce(times, second) for second in range(11)] == [True] * 10 + [False]
    assert not may_announce(times, 3599.0)
    assert may_announce(times, 3600.0)
    assert not may_announce(times, 3600.5)
    assert len(times) == 10
