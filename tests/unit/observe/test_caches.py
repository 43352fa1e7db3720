from datetime import UTC, datetime
from typing import cast
from unittest.mock import Mock

import msgspec
import pytest

from spotrun.api.names import ANNOTATION_DEVICES, LABEL_JOB, LABEL_JOB_UID, LABEL_TEMPLATE
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client
from spotrun.kube.watch.kopf_feed import Feed
from spotrun.observe.caches import Caches
from spotrun.observe.jobs.leader_memory import Memory
from spotrun.observe.kube_objects import FED, JobObject, PodMetricsObject, PodObject
from spotrun.observe.telemetry.metrics_server import IGNORED_SECONDS
from spotrun.state.names import worker_name
from spotrun.state.stored.failures import Restarts, TriedSizes
from tests.support.jobs.builders import TEMPLATE, a_job, a_spec, ago
from tests.unit.observe.mute_jobs import a_mute_job

UID = "job-uid"
NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


@pytest.fixture
def caches() -> Caches:
    """Filled by hand; nothing is followed."""
    client = cast("Client", Mock())
    caches = Caches(
        client,
        namespace=None,
        wake=lambda _: None,
        feed=Feed(FED),
        clock=lambda: 0.0,
        wall=lambda: NOW,
    )
    meta = {"name": "job", "namespace": "ns", "uid": UID, "resourceVersion": "1"}
    meta["creationTimestamp"] = "2026-03-02T11:00:00Z"
    content = {"metadata": meta, "spec": a_spec(2).manifest(), "status": {"nextWorkerId": 1}}
    caches.jobs.objects.store.put(msgspec.json.decode(msgspec.json.encode(content), type=JobObject))
    return caches


@pytest.mark.parametrize(
    ("made_by", "template", "devices", "is_on_pods"),
    [
        pytest.param(UID, "present", "4", True, id="a worker of the present template"),
        pytest.param(UID, "former", "4", False, id="of a former one"),
        pytest.param(UID, "present", "", False, id="made without"),
        pytest.param("former", "present", "4", False, id="of a former job"),
    ],
)
def test_devices_are_on_pods_where_the_next_worker_has_as_many(
    caches: Caches, made_by: str, template: str, devices: str, is_on_pods: bool
) -> None:
    key = Key("ns", "job")
    job = caches.jobs.get(key)
    assert job is not None
    present = caches.jobs.readings.spec(job).template
    meta = {
        "name": worker_name("job", made_by, 0),
        "namespace": "ns",
        "resourceVersion": "1",
        "labels": {
            str(LABEL_JOB): "job",
            str(LABEL_JOB_UID): made_by,
            str(LABEL_TEMPLATE): present if template == "present" else template,
        },
        "annotations": {str(ANNOTATION_DEVICES): devices},
        "ownerReferences": [{"uid": made_by, "name": "job", "controller": True}],
    }
    caches.jobs.reflectors["pods"].store.put(msgspec.convert({"metadata": meta}, PodObject))
    assert caches.jobs.has_devices_on_pods(key) is is_on_pods


@pytest.mark.parametrize(
    ("job", "worker_id", "is_worker"),
    [
        pytest.param("job", 0, True, id="its number was given out"),
        pytest.param("job", 1, False, id="its number was not"),
        pytest.param("none", 0, False, id="there is no such job"),
    ],
)
def test_whoever_takes_our_labels_is_no_worker(
    caches: Caches, job: str, worker_id: int, is_worker: bool
) -> None:
    meta = {
        "name": worker_name(job, UID, worker_id),
        "namespace": "ns",
        "resourceVersion": "1",
        "labels": {str(LABEL_JOB): job, str(LABEL_JOB_UID): UID},
        "ownerReferences": [{"uid": UID, "name": job, "controller": True}],
    }
    pod = msgspec.convert({"metadata": meta}, PodObject)
    assert caches.jobs.is_worker(pod) is is_worker


async def test_a_job_that_trips_the_operator_keeps_nobody_waiting(
    caches: Caches, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def trip(*_: object) -> None:
        raise TypeError("a bug")

    monkeypatch.setattr(caches, "snapshot", trip)
    await caches.survey()
    assert "ns/job: the operator could not examine the job" in caplog.text


@pytest.mark.parametrize(("trains", "looked_at"), [(True, []), (False, ["job"])])
async def test_of_thousands_that_train_none_is_looked_at_twice(
    caches: Caches, monkeypatch: pytest.MonkeyPatch, trains: bool, looked_at: list[str]
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(caches, "snapshot", lambda key, *_: seen.append(key.name))
    if trains:
        world = {"number": 1, "members": "0-1", "active": "2026-03-02T11:30:00Z"}
        job = caches.jobs.get(Key("ns", "job"))
        assert job is not None
        status = msgspec.Raw(msgspec.json.encode({"nextWorkerId": 2, "world": world}))
        meta = msgspec.structs.replace(job.metadata, resource_version="2")
        caches.jobs.objects.store.put(msgspec.structs.replace(job, metadata=meta, status=status))

    await caches.survey()

    assert looked_at == seen


def test_nothing_that_was_made_for_a_job_is_taken_to_be_there_for_the_next_of_its_name(
    caches: Caches,
) -> None:
    key, memory = Key("ns", "job"), Memory()
    caches.snapshot(key, memory, 0.0)
    memory.policy_at = 5.0  # it has a NetworkPolicy of its own, which goes with it
    caches.snapshot(key, memory, 0.0)
    assert memory.policy_at == 5.0

    job = caches.jobs.get(key)
    assert job is not None
    again = msgspec.structs.replace(job.metadata, uid="next", resource_version="2")
    caches.jobs.objects.store.put(msgspec.structs.replace(job, metadata=again))
    caches.snapshot(key, memory, 0.0)

    assert memory.policy_at == float("-inf")


def test_what_a_job_has_cost_that_was_deleted_while_others_led_is_not_told_again(
    caches: Caches,
) -> None:
    key, memory = Key("ns", "job"), Memory()
    caches.snapshot(key, memory, leading_since=0.0)
    memory.last = a_job().snapshot()
    caches.jobs.objects.store.remove(key)

    caches.snapshot(key, memory, leading_since=3600.0)

    assert memory.last is None


async def test_who_stood_in_line_before_others_led_is_in_nobodys_way(caches: Caches) -> None:
    lacks = a_job(2, min=2).with_worker(0, node=None, unschedulable="0/3 nodes are available")
    gone = lacks.with_facts(name="gone", uid="gone", created_at=ago(20)).snapshot()
    later = lacks.with_facts(name="later", uid="later", created_at=ago(10)).snapshot()
    assert caches._gangs.may_hold_nodes(gone)
    assert not caches._gangs.may_hold_nodes(later)

    await caches.survey()  # as whoever begins to lead

    assert caches._gangs.may_hold_nodes(later)


async def test_of_two_jobs_that_keep_to_a_size_only_the_first_may_hold_nodes(
    caches: Caches,
) -> None:
    """Each has a node for a world that its spec allows, and not for the one that it waits for."""
    sizes = TriedSizes((3,), suspect=1, error="no", held=3, template=TEMPLATE)
    job = a_job(3, min=1, max=3).with_status(restarts=Restarts(sizes=sizes)).with_worker(0)
    job = job.with_worker(1, node=None, unschedulable="0/3 nodes are available")
    first, later = (
        job.with_facts(name=name, uid=name, created_at=ago(seconds)).snapshot()
        for name, seconds in (("first", 20), ("later", 10))
    )
    assert caches._with_surroundings(first).may_hold_nodes
    seen = caches._with_surroundings(later)
    assert not seen.may_hold_nodes
    assert seen.spec == later.spec


@pytest.mark.parametrize(("breaks", "asked"), [(False, [UID]), (True, [])])
async def test_nobody_asks_what_a_job_uses_that_cannot_be_read_any_more(
    caches: Caches, monkeypatch: pytest.MonkeyPatch, breaks: bool, asked: list[str]
) -> None:
    key, told = Key("ns", "job"), list[str]()

    async def listed(_: str, uid: str) -> list[PodMetricsObject]:
        told.append(uid)
        return []

    monkeypatch.setattr(caches.usage, "_listed", listed)
    caches.usage.added_to(a_mute_job().snapshot())
    if breaks:
        job = caches.jobs.get(key)
        assert job is not None
        meta = msgspec.structs.replace(job.metadata, resource_version="2", generation=2)
        unreadable = msgspec.structs.replace(job, metadata=meta, spec=msgspec.Raw(b"{}"))
        caches.jobs.objects.store.put(unreadable)
        seen = caches.snapshot(key, Memory(), 0.0)
        assert seen is not None
        assert seen.broken is not None

    monkeypatch.setattr(caches.usage, "_clock", lambda: IGNORED_SECONDS)
    await caches.usage.refresh()

    assert asked == told


def test_a_job_whose_surroundings_nobody_can_look_at_can_still_be_let_go_of(
    caches: Caches, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a mistake")

    monkeypatch.setattr(caches.pools, "market_for", fail)
    seen = caches.snapshot(Key("ns", "job"), Memory(), 0.0)
    assert seen is not None
    assert seen.broken is not None
    assert seen.broken.message.endswith("ValueError: a mistake")
