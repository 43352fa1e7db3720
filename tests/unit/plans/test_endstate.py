"""End states of two runs are equal where only names of the run differ, and different else."""

from copy import deepcopy
from typing import Any

import pytest

from tests.plans.endstate import differences, end_state, summary
from tests.unit.plans.objects import a_pod

WORLD = {"number": 2, "members": "0,2", "store": "10.0.0.1:20000", "usedStores": ["a", "b"]}
JOB: dict[str, Any] = {
    "metadata": {"name": "job", "uid": "uid-of-the-run", "resourceVersion": "7"},
    "spec": {"suspend": False},
    "status": {"phase": "Succeeded", "settled": "0-2", "world": WORLD, "time": "now"},
}
POD: dict[str, Any] = {
    "metadata": {
        "name": "job-abcde-0",
        "labels": {"spotrun.dev/job-uid": "uid-of-the-run"},
        "creationTimestamp": "now",
    },
    "spec": {
        "nodeName": "a",
        "containers": [{"name": "trainer", "env": [{"name": "SPOTRUN_CA", "value": "pem"}]}],
        "volumes": [{"name": "kube-api-access-x7k2p"}],
    },
    "status": {
        "phase": "Succeeded",
        "containerStatuses": [{"state": {"terminated": {"message": "bye"}}}],
    },
}
SECRET: dict[str, Any] = {"metadata": {"name": "spotrun-agents"}, "data": {"key": "c2VjcmV0"}}


def state(job: Any = JOB, pod: Any = POD, secret: Any = SECRET) -> dict[str, Any]:
    objects = {
        kind: [deepcopy(one)]
        for kind, one in {"trainingjobs": job, "pods": pod, "secrets": secret}.items()
    }
    return end_state(objects, {job["metadata"]["uid"]: "<uid>"})


def changed(of: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    copy = deepcopy(of)
    *parents, last = path.split(".")
    inner = copy
    for name in parents:
        inner = inner[name]
    inner[last] = value
    return copy


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.uid", "another"),
        ("metadata.resourceVersion", "9"),
        ("status.time", "later"),
        ("status.world.store", "10.0.0.9:20007"),
        ("status.world.members", "2,0"),
        ("status.world.usedStores", ["c", "d"]),
    ],
)
def test_what_differs_between_any_two_runs_is_left_out(path: str, value: Any) -> None:
    assert differences(state(), state(changed(JOB, path, value), _of_uid(path, value))) == []


def _of_uid(path: str, value: Any) -> dict[str, Any]:
    labels = {"spotrun.dev/job-uid": value}
    return changed(POD, "metadata.labels", labels) if path == "metadata.uid" else POD


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (
            "status.phase",
            "Failed",
            ".trainingjobs/job.status.phase: 'Failed' instead of 'Succeeded'",
        ),
        ("status.settled", "0-1", ".trainingjobs/job.status.settled: '0-1' instead of '0-2'"),
        ("status.world.number", 3, ".trainingjobs/job.status.world.number: 3 instead of 2"),
        ("status.world.store", None, ".trainingjobs/job.status.world.store: False instead of True"),
        (
            "status.world.usedStores",
            ["a"],
            ".trainingjobs/job.status.world.usedStores: 1 instead of 2",
        ),
        ("spec.suspend", True, ".trainingjobs/job.spec.suspend: True instead of False"),
    ],
)
def test_what_became_of_the_job_counts(path: str, value: Any, expected: str) -> None:
    assert differences(state(), state(changed(JOB, path, value))) == [expected]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.finalizers", ["spotrun.dev/metered"]),
        ("metadata.deletionTimestamp", "now"),
        ("status.phase", "Failed"),
        ("status.containerStatuses", [{"state": {"terminated": {"message": "no"}}}]),
        ("spec.containers", [{"name": "trainer", "env": [{"name": "OTHER", "value": "x"}]}]),
    ],
)
def test_what_became_of_a_pod_counts(path: str, value: Any) -> None:
    assert len(differences(state(), state(pod=changed(POD, path, value)))) >= 1


@pytest.mark.parametrize(
    ("path", "value"),
    [("spec.nodeName", "b"), ("spec.volumes", [{"name": "kube-api-access-abcde"}])],
)
def test_where_a_pod_was_does_not_count(path: str, value: Any) -> None:
    assert differences(state(), state(pod=changed(POD, path, value))) == []


def test_an_object_too_many_or_too_few_is_a_difference() -> None:
    another = changed(POD, "metadata.name", "job-abcde-1")
    more = end_state({"pods": [deepcopy(POD), another]}, {})
    one = end_state({"pods": [deepcopy(POD)]}, {})
    assert [text.partition(":")[0] for text in differences(one, more)] == [".pods/job-<hash>-1"]
    assert [text.partition(":")[0] for text in differences(more, one)] == [".pods/job-<hash>-1"]


def test_of_a_secret_only_its_keys_count() -> None:
    assert differences(state(), state(secret=changed(SECRET, "data.key", "b3RoZXI="))) == []
    assert differences(state(), state(secret=changed(SECRET, "data.more", "eA=="))) != []


def test_a_worker_made_twice_shows_in_the_summary() -> None:
    once = [a_pod(1, worker_id=0), a_pod(2, worker_id=1), a_pod(3, "DELETED", 1)]
    assert summary(once) == {"made": {"worker 0": 1, "worker 1": 1}, "gone": {"worker 1": 1}}
    again = summary([*once, a_pod(4, worker_id=1, uid="another")])
    assert differences(summary(once), again) == [".made.worker 1: 2 instead of 1"]
