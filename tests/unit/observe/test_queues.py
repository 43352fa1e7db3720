"""Kueue is found when it is installed and missed when it goes; where it is off nobody asks."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from spotrun.kube.errors import Forbidden, NotFound
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client
from spotrun.observe.kube_objects import JobLabels, JobMeta, JobObject
from spotrun.observe.queues.caches import QueueCaches
from spotrun.observe.queues.objects import WorkloadObject
from spotrun.state.names import asked_hash
from spotrun.state.queue import Flavor, Queue
from tests.unit.kube.scripted import ScriptedTransport

JOB = JobObject(JobMeta(name="job", namespace="ns", uid="u", labels=JobLabels(queue="team")))
KUEUE = "/apis/kueue.x-k8s.io/"
OWNER = {"uid": "u", "name": "job", "controller": True}
CONDITIONS = [{"type": kind, "status": "True"} for kind in ("QuotaReserved", "Admitted")]
ADMISSION = {"podSetAssignments": [{"name": "workers", "flavors": {"cpu": "blue"}, "count": 3}]}
WORKLOAD = {
    "metadata": {
        "name": "trainingjob-job-x-0",
        "namespace": "ns",
        "uid": "w",
        "resourceVersion": "4",
        "ownerReferences": [OWNER],
        "annotations": {"spotrun.dev/asked": asked_hash("t1", "team")},
    },
    "spec": {"podSets": [{"count": 4, "minCount": 2}]},
    "status": {"admission": ADMISSION, "conditions": CONDITIONS},
}
FLAVOR = {
    "metadata": {"name": "blue", "uid": "f", "resourceVersion": "3"},
    "spec": {
        "nodeLabels": {"kind": "blue"},
        "tolerations": [{"key": "blue", "operator": "Exists"}],
    },
}
OBJECTS = {"workloads": [WORKLOAD], "resourceflavors": [FLAVOR]}


class Cluster:
    """An API server that serves some versions of Kueue's API."""

    def __init__(self, *served: str) -> None:
        self.served = served
        self.asked: list[str] = []
        self.hurried: list[Key] = []

    def answer(self, _method: str, path: str, _body: Any) -> Any:
        self.asked.append(path)
        version, _, rest = path.removeprefix(KUEUE).partition("/")
        if version not in self.served:
            raise NotFound("the server could not find the requested resource", status=404)
        items = OBJECTS.get(rest.rpartition("/")[2].partition("?")[0], [])
        return {"metadata": {"resourceVersion": "5"}, "items": items}

    def caches(self, wake: Callable[[Key], None], *, is_enabled: bool = True) -> QueueCaches:
        client = Client(ScriptedTransport(self.answer), field_manager="test")
        return QueueCaches(
            client,
            namespace=None,
            wake=wake,
            hurry=self.hurried.append,
            follow=lambda _: None,
            is_enabled=is_enabled,
            look_seconds=0.01,
        )


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.01)


async def test_kueue_that_is_installed_later_is_noticed_and_so_is_its_removal() -> None:
    cluster, woken = Cluster(), list[Key]()
    async with cluster.caches(woken.append) as caches:
        await caches.known.wait()
        assert caches.queue_of(JOB, "t1") == Queue("team")
        cluster.served = ("v1beta1",)
        await until(lambda: caches.api_version == "v1beta1")
        queue = caches.queue_of(JOB, "t1")
        assert queue is not None
        assert Key("ns", "job") in cluster.hurried, "it was let in"
        assert (queue.workers, queue.requests[0].least) == (3, 2)
        assert queue.flavor == Flavor({"kind": "blue"}, ({"key": "blue", "operator": "Exists"},))
        other = caches.queue_of(JOB, "t2")
        assert other is not None
        assert other.workers == 0, "it was admitted with another template"
        cluster.served = ()
        await until(lambda: caches.api_version == "")
        assert caches.queue_of(JOB, "t1") == Queue("team")


@pytest.mark.parametrize(
    ("owner", "num_requests", "workers"),
    [("u", 1, 3), (None, 1, 0), ("another job's", 0, 0)],
    ids=["ours", "made for us", "taken"],
)
async def test_of_a_job_of_another_cluster_the_workload_that_it_names_is_read(
    monkeypatch: pytest.MonkeyPatch, owner: str | None, num_requests: int, workers: int
) -> None:
    owners = [{**OWNER, "uid": owner}] if owner is not None else []
    metadata: dict[str, Any] = {**WORKLOAD["metadata"], "ownerReferences": owners}  # type: ignore[dict-item]
    monkeypatch.setitem(OBJECTS, "workloads", [{**WORKLOAD, "metadata": metadata}])
    labels = JobLabels(queue="team", prebuilt="trainingjob-job-x-0")
    copy = JobObject(JobMeta(name="job", namespace="ns", uid="u", labels=labels))
    async with Cluster("v1beta2").caches(lambda _: None) as caches:
        await caches.known.wait()
        queue = caches.queue_of(copy, "t1")
    assert queue is not None
    assert (len(queue.requests), queue.workers) == (num_requests, workers)


def test_a_workload_without_an_owner_wakes_the_job_that_it_was_made_for() -> None:
    cluster, woken = Cluster(), list[Key]()
    metadata = {"name": "w", "namespace": "ns", "uid": "w", "labels": {"spotrun.dev/job": "job"}}
    made = msgspec.convert({"metadata": metadata}, WorkloadObject)
    cluster.caches(woken.append)._changed(None, made)
    assert woken == [Key("ns", "job")]


async def test_the_newest_version_is_taken() -> None:
    async with Cluster("v1beta1", "v1beta2").caches(lambda _: None) as caches:
        await caches.known.wait()
        assert caches.api_version == "v1beta2"


async def test_nothing_is_asked_where_kueue_is_not_enabled() -> None:
    cluster = Cluster("v1beta2")
    async with cluster.caches(lambda _: None, is_enabled=False) as caches:
        await caches.known.wait()
        assert caches.queue_of(JOB, "t1") == Queue("team")
    assert cluster.asked == []


async def test_without_rights_nobody_concludes_that_there_is_no_kueue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()

    def refuse(*_: object) -> Any:
        cluster.asked.append("")
        raise Forbidden("workloads is forbidden", status=403)

    monkeypatch.setattr(cluster, "answer", refuse)
    async with cluster.caches(lambda _: None) as caches:
        await until(lambda: len(cluster.asked) > 2)
        assert not caches.known.is_set()


def changed(caches: QueueCaches, *conditions: tuple[str, ...]) -> None:
    """Show an older and a newer state of one Workload, by the conditions that are True."""
    states = [
        msgspec.convert(
            {**WORKLOAD, "status": {"conditions": [{"type": t, "status": "True"} for t in kinds]}},
            WorkloadObject,
        )
        for kinds in conditions
    ]
    caches._changed(*states)


@pytest.mark.parametrize(
    ("old", "new", "is_urgent"),
    [
        ((), ("QuotaReserved",), False),
        (("QuotaReserved",), ("QuotaReserved", "Admitted"), True),
        (("Admitted",), ("Admitted", "PodsReady"), False),
        (("Admitted",), ("Admitted", "Evicted"), True),
        (("Admitted", "Evicted"), (), False),
    ],
)
def test_a_job_that_is_let_in_or_is_to_go_comes_before_those_that_wait(
    old: tuple[str, ...], new: tuple[str, ...], is_urgent: bool
) -> None:
    cluster, woken = Cluster(), list[Key]()
    changed(cluster.caches(woken.append), old, new)
    assert (bool(cluster.hurried), bool(woken)) == (is_urgent, not is_urgent)
