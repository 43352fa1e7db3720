"""Jobs that are decided one right after the other do not all see the same free node."""

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.api.capacitypool import Capacity
from spotrun.kube.resource import Key
from spotrun.money.shares import Resources
from spotrun.observe.kube_objects import PodObject
from spotrun.observe.pools.fit import Demand
from spotrun.observe.pools.free_capacity import Kind, Room, Slot
from spotrun.observe.pools.promised_capacity import Promises
from spotrun.state.actions import Create, Placed
from spotrun.state.names import worker_name
from spotrun.state.snapshot import JobSnapshot
from tests.support.jobs.builders import a_job

ONE = Resources(cpu=Decimal(3), gpus=1)
NODE = Resources(cpu=Decimal(4), gpus=1)
TRIED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
GATED = {**TRIED, "reason": "SchedulingGated"}


class Scene:
    """A pool with room for two workers, and who was told that its room has changed."""

    def __init__(self) -> None:
        self.changed: list[str] = []
        self.room = Room()
        for node in ("n1", "n2"):
            self.room.put(node, "pool", Slot(Kind(frozenset()), NODE, is_empty=True))
        self.promises = Promises(self.room, self.changed.append)

    def slots(self) -> int:
        return self.room.slots("pool", Demand(requests=ONE))

    def decided(self, job: JobSnapshot, *worker_ids: int, **place: Any) -> None:
        asked = Placed(("pool",), (), pinned=True, capacity=Capacity.SPOT)
        self.promises.make(job, [Create(n, (), replace(asked, **place)) for n in worker_ids])

    def shows(self, job: JobSnapshot, worker_id: int, **parts: Any) -> None:
        self.promises.pod_changed(None, a_pod(worker_name(job.name, job.uid, worker_id), **parts))


def a_pod(name: str, pools: str = "pool", node: str = "", **parts: Any) -> PodObject:
    meta = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}
    meta |= {"deletionTimestamp": parts.pop("deleted", None)}
    asks = {"requests": {"cpu": "3", "nvidia.com/gpu": "1"}}
    content = {
        "metadata": {**meta, "annotations": {"spotrun.dev/pools": pools}},
        "spec": {"containers": [{"resources": asks}], "nodeName": node or None},
        "status": {"conditions": parts.pop("conditions", ()), **parts},
    }
    return msgspec.convert(content, PodObject)


def named(name: str) -> JobSnapshot:
    facts = {"name": name, "uid": name, "namespace": "ns", "requests": ONE}
    return a_job(1).with_facts(**facts).snapshot()


X, Y = named("x"), named("y")


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_room_that_one_job_was_just_told_of_is_no_room_for_the_next(scene: Scene) -> None:
    scene.decided(X, 0)
    assert (scene.slots(), scene.changed) == (1, ["pool"])
    scene.decided(Y, 0)
    assert scene.slots() == 0


def test_who_may_go_to_several_pools_or_to_one_without_room_is_promised_none(scene: Scene) -> None:
    scene.decided(X, 0, required=("pool", "other"), pinned=False)
    scene.decided(Y, 0, pinned=False)
    assert scene.slots() == 2


def test_a_promise_holds_while_the_worker_shows_but_was_not_tried_and_counts_once(
    scene: Scene,
) -> None:
    scene.decided(X, 0)
    scene.shows(X, 0)
    assert scene.slots() == 1
    scene.promises.take_back(Key("ns", "x"))
    assert scene.slots() == 1, "its job is looked at again, and the worker is still to come there"


def test_a_worker_of_an_earlier_leader_has_its_room_as_well(scene: Scene) -> None:
    scene.shows(X, 0)
    assert scene.slots() == 1


@pytest.mark.parametrize(
    "parts",
    [
        {"node": "n1"},
        {"conditions": [TRIED]},
        {"conditions": [GATED]},
        {"phase": "Failed"},
        {"deleted": "2026-03-02T12:00:00Z"},
    ],
    ids=["has a node", "found none", "is not to be tried yet", "is over", "is being deleted"],
)
def test_a_promise_ends_when_the_worker(scene: Scene, parts: dict[str, Any]) -> None:
    scene.decided(X, 0)
    scene.shows(X, 0, **parts)
    assert scene.slots() == 2


def test_a_promise_ends_with_the_worker(scene: Scene) -> None:
    scene.shows(X, 0)
    scene.promises.pod_changed(a_pod(worker_name("x", "x", 0)), None)
    assert scene.slots() == 2


def test_a_job_that_is_looked_at_again_is_promised_room_anew(scene: Scene) -> None:
    scene.decided(X, 0, 1)
    scene.promises.take_back(Key("ns", "x"))
    assert scene.slots() == 2
    scene.decided(X, 0)
    scene.promises.take_all_back()
    assert scene.slots() == 2


def test_pools_that_nobody_has_are_not_remembered(scene: Scene) -> None:
    scene.promises.pod_changed(None, a_pod("w0", "nobodys"))
    scene.promises.pod_changed(a_pod("w0", "nobodys"), None)
    assert scene.room._promised == {}


def fill(nodes: Iterable[int], many: Iterable[int]) -> tuple[int, int]:
    """How much room for one GPU is left: as it is counted, and node by node."""
    room, have = Room(), list(nodes)
    for number, gpus in enumerate(have):
        room.put(str(number), "pool", Slot(Kind(frozenset()), Resources(gpus=gpus), is_empty=True))
    for gpus in many:
        room.promise("pool", Resources(gpus=gpus), 1)
        fitting = [one for one, free in enumerate(have) if free >= gpus]
        if fitting:
            have[fitting[0]] -= gpus
    return room.slots("pool", Demand(requests=Resources(gpus=1))), sum(have)


@given(st.lists(st.integers(1, 8), max_size=6), st.lists(st.just(1), max_size=20))
def test_what_is_promised_is_no_longer_there_and_never_less_than_nothing(
    nodes: list[int], many: list[int]
) -> None:
    counted, told = fill(nodes, many)
    assert counted == told


def test_workers_of_several_sizes_share_nodes() -> None:
    assert fill([8, 8, 8], [8, 4, 4, 2]) == (6, 6)
