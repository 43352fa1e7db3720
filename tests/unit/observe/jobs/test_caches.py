"""Whose a pod is, and for how long what was read of a job is kept."""

from typing import Any, cast
from unittest.mock import Mock

import msgspec
import pytest

from spotrun.api.names import FINALIZER_METERED, LABEL_JOB, LABEL_JOB_UID
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client
from spotrun.observe.jobs.caches import JobCaches
from spotrun.observe.kube_objects import JobObject, PodObject, PodStatus
from spotrun.state.job_state import JobState
from spotrun.state.names import worker_name
from tests.support.jobs.builders import a_spec

UID = "job-uid"


@pytest.fixture
def orphaned() -> list[Key]:
    """The names whose former jobs have left something."""
    return []


@pytest.fixture
def hurried() -> list[Key]:
    """The jobs that are looked at though they wait for a pause to be over."""
    return []


@pytest.fixture
def jobs(orphaned: list[Key], hurried: list[Key]) -> JobCaches:
    """Filled by hand; nothing is followed."""
    jobs = JobCaches(
        cast("Client", Mock()),
        namespace=None,
        wake=lambda _: None,
        hurry=hurried.append,
        orphaned=orphaned.append,
        job_changed=lambda *_: None,
        pod_changed=lambda *_: None,
        node_changed=lambda *_: None,
    )
    meta = {"name": "job", "namespace": "ns", "uid": UID, "resourceVersion": "1"}
    content = {"metadata": meta, "spec": a_spec(2).manifest(), "status": {"nextWorkerId": 1}}
    jobs.objects.store.put(msgspec.json.decode(msgspec.json.encode(content), type=JobObject))
    return jobs


def pod(worker_id: int, **meta: Any) -> PodObject:
    known = {
        "name": worker_name("job", UID, worker_id),
        "namespace": "ns",
        "uid": "p",
        "resourceVersion": "2",
        "labels": {str(LABEL_JOB): "job", str(LABEL_JOB_UID): UID},
        "ownerReferences": [{"uid": UID, "controller": True}],
        **meta,
    }
    return msgspec.convert({"metadata": known}, PodObject)


def test_what_a_worker_asks_for_is_what_its_job_says(jobs: JobCaches) -> None:
    of = jobs.job_of(pod(0))
    assert of is not None
    assert of[0] == a_spec(2)


@pytest.mark.parametrize(
    "stranger",
    [
        pytest.param(pod(1), id="of a number that was never given out"),
        pytest.param(pod(0, ownerReferences=[]), id="of no owner"),
        pytest.param(pod(0, name="job-x"), id="of another name"),
        pytest.param(pod(0, namespace="other"), id="of another namespace"),
    ],
)
def test_a_pod_that_only_looks_like_a_worker_asks_for_nothing(
    jobs: JobCaches, stranger: PodObject
) -> None:
    assert jobs.job_of(stranger) is None


def test_what_was_read_of_a_job_goes_with_it_also_where_nobody_decides(jobs: JobCaches) -> None:
    # A standby is asked by its pools whose workers were bound, and never for a snapshot.
    assert jobs.job_of(pod(0)) is not None

    jobs.objects._tell(jobs.objects.store.remove(Key("ns", "job")))

    assert jobs.job_of(pod(0)) is None
    assert UID not in jobs.readings._specs
    assert UID not in jobs.readings._statuses


def test_what_was_read_of_a_job_is_forgotten_when_another_has_its_name(jobs: JobCaches) -> None:
    old = jobs.get(Key("ns", "job"))
    assert old is not None
    first = jobs.readings.spec(old)
    new = msgspec.structs.replace(old, metadata=msgspec.structs.replace(old.metadata, uid="next"))

    jobs._job_changed(old, old)
    assert jobs.readings.spec(old) is first
    jobs._job_changed(old, new)  # as a list shows it, when the deletion was not seen

    assert jobs.readings.spec(old) is not first


HELD = {"finalizers": [FINALIZER_METERED]}
RELABELLED = {
    "labels": {str(LABEL_JOB_UID): "x", str(LABEL_JOB): "other"},
    "ownerReferences": [{"uid": UID, "name": "job", "controller": True}],
}
FORMER = [{"uid": "former", "name": "job", "controller": True}]


@pytest.mark.parametrize(
    ("found", "is_left"),
    [
        pytest.param(pod(0, **HELD), False, id="it is the present job's"),
        pytest.param(pod(0, **HELD, ownerReferences=FORMER), True, id="its job was another one"),
        pytest.param(pod(0, **HELD, ownerReferences=[]), True, id="it was orphaned on purpose"),
        pytest.param(pod(0, ownerReferences=FORMER), False, id="it does not wait for us"),
        pytest.param(
            pod(0, **HELD, **RELABELLED),
            False,
            id="only its labels say otherwise",
        ),
    ],
)
def test_what_is_left_of_a_former_job_is_work_of_its_own(
    jobs: JobCaches, orphaned: list[Key], found: PodObject, is_left: bool
) -> None:
    jobs._pod_changed(None, found)
    assert orphaned == ([Key("ns", "job")] if is_left else [])


def test_when_a_job_goes_its_pods_are_looked_at(jobs: JobCaches, orphaned: list[Key]) -> None:
    jobs.objects._tell(jobs.objects.store.remove(Key("ns", "job")))
    assert orphaned == [Key("ns", "job")]


def test_a_pod_is_found_by_its_owner_whatever_its_labels_say(jobs: JobCaches) -> None:
    mislabelled = pod(0, **RELABELLED)
    jobs.reflectors["pods"].store.put(mislabelled)
    assert jobs.pods_of(Key("ns", "job")) == (mislabelled,)


@pytest.mark.parametrize(
    ("change", "is_hurried"),
    [
        ({"resource_version": "2"}, False),
        ({"generation": 2}, True),
        ({"deletion_timestamp": "2026-03-02T12:00:00Z"}, True),
    ],
)
def test_what_somebody_asks_of_a_job_waits_for_no_pause(
    jobs: JobCaches, hurried: list[Key], change: dict[str, Any], is_hurried: bool
) -> None:
    old = jobs.get(Key("ns", "job"))
    assert old is not None
    meta = msgspec.structs.replace(old.metadata, **change)
    jobs._job_changed(old, msgspec.structs.replace(old, metadata=meta))
    assert hurried == ([Key("ns", "job")] if is_hurried else [])


def test_a_name_that_changes_hands_waits_for_no_pause(jobs: JobCaches, hurried: list[Key]) -> None:
    # A job that nothing holds back goes with one event, and another one may have its name at once.
    old = jobs.get(Key("ns", "job"))
    assert old is not None
    new = msgspec.structs.replace(old, metadata=msgspec.structs.replace(old.metadata, uid="next"))

    jobs._job_changed(None, old)
    assert hurried == []
    jobs._job_changed(old, None)
    assert hurried == [Key("ns", "job")]
    jobs._job_changed(old, new)  # as a list shows it, when the deletion was not seen
    assert hurried == [Key("ns", "job")] * 2


def test_a_job_that_another_controller_runs_has_no_status_of_ours_and_counts_for_nothing(
    jobs: JobCaches,
) -> None:
    (ours,) = jobs.in_namespace("ns")
    spec = a_spec(2, managedBy="kueue.x-k8s.io/multikueue").manifest()
    other = {
        "metadata": {"name": "other", "namespace": "ns", "uid": "o", "resourceVersion": "2"},
        "spec": spec,
        "status": {"phase": "Running", "nextWorkerId": 7, "cost": {"usd": "12"}},
    }
    jobs.objects._tell(
        jobs.objects.store.put(msgspec.json.decode(msgspec.json.encode(other), type=JobObject))
    )
    assert list(jobs.in_namespace("ns")) == [ours]
    found = jobs.spec_and_state(Key("ns", "other"))
    assert found is not None
    assert found[1] == JobState()


@pytest.mark.parametrize(
    ("meta", "phase", "has_ended"),
    [
        ({}, "Running", False),
        ({}, "Pending", False),
        ({}, "Failed", True),
        ({}, "Succeeded", True),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "Running", True),
    ],
)
def test_a_job_has_an_ended_worker_once_its_pod_ends_or_is_deleted(
    jobs: JobCaches, meta: dict[str, str], phase: str, has_ended: bool
) -> None:
    ends = msgspec.structs.replace(pod(0, **meta), status=PodStatus(phase=phase))
    jobs._pods.store.put(ends)
    assert jobs.with_ended_workers() == ({Key("ns", "job")} if has_ended else set())
