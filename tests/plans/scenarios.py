"""Lives of a job and of a search, told by what must come to be.

They read the same whatever goes wrong.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from math import nan
from typing import Any
from unittest.mock import patch

from devcluster.client import ApiError, at
from spotrun.api.names import ANNOTATION_KEPT_REPORT
from spotrun.policies.placement.queueing import giving_way
from spotrun.state.names import owned_name
from tests.plans.safety import numbers
from tests.support.cluster.operator_world import World

BIG = {"cpu": "64", "memory": "64Gi"}

Trouble = Callable[[], AbstractAsyncContextManager[Any]]


@dataclass
class Stage:
    """The world of a scenario; `doomed` are the workers that it takes away itself."""

    world: World
    trouble: Trouble = nullcontext  # surrounds the middle of a scenario
    doomed: set[int] = field(default_factory=set)
    is_exact: bool = True  # nothing but the scenario takes workers away

    async def trains(self, *worker_ids: int, job: str = "job") -> None:
        """Wait until exactly these workers train, all of them in the newest world."""

        def on(status: Any) -> bool:
            world = status.get("world") or {}
            return bool(world.get("active")) and numbers(world.get("members")) == set(worker_ids)

        found = await self.world.until_job(on, job)
        world_number = found["status"]["world"]["number"]

        async def arrived() -> bool:
            agents = self.world.play(job).agents
            return all(n in agents and agents[n].report.arrived >= world_number for n in worker_ids)

        await self.world.until(arrived)

    async def finish(self) -> None:
        """Let the training end; returns when nothing is left to be done for the job."""
        self.world.play().may_finish.set()
        await self.world.until_phase("Succeeded")
        await self.all_settled()

    async def all_settled(self) -> None:
        """Wait until every number is settled and every pod let go."""
        await self.world.until_job(
            lambda s: len(numbers(s.get("settled"))) == s.get("nextWorkerId", 0) > 0
        )
        await self.world.until(self._all_released)

    async def _all_released(self) -> bool:
        return not any(pod["metadata"].get("finalizers") for pod in await self.world.pods())


Scenario = Callable[[Stage], Awaitable[None]]


async def succeeds(stage: Stage) -> None:
    """Create, train, succeed, keep a report."""
    world = stage.world
    await world.nodes.add("a", capacity=BIG)
    workers = {"min": 2, "max": 3, "replicas": 3}
    await world.create_job(workers=workers, finished={"report": True})
    async with stage.trouble():
        await stage.trains(0, 1, 2)
    await stage.finish()

    async def is_kept() -> bool:
        return ANNOTATION_KEPT_REPORT in (await world.job())["metadata"].get("annotations", {})

    await world.until(is_kept)


async def worker_lost(stage: Stage) -> None:
    """A pod is deleted by force; a smaller world goes on; the worker is replaced."""
    world = stage.world
    await world.nodes.add("a", capacity=BIG)
    await world.create_job(workers={"min": 2, "max": 3, "replicas": 3})
    await stage.trains(0, 1, 2)
    stage.doomed.add(1)
    replacement = world.play().may_start[3] = asyncio.Event()
    async with stage.trouble():
        pod = (await world.pods())[1]["metadata"]["name"]
        await world.kube.delete(at("pods", world.namespace, pod), grace_seconds=0)
    await stage.trains(0, 2)
    replacement.set()
    await stage.trains(0, 2, 3)
    await stage.finish()


async def node_lost(stage: Stage) -> None:
    """A node vanishes with its worker, without a word; it is replaced on another."""
    world = stage.world
    for name in ("a", "b", "c"):
        await world.nodes.add(name, capacity={"cpu": "1", "memory": "8Gi"})
    requests = {"resources": {"requests": {"cpu": "1"}}}
    container = {"name": "trainer", "image": "x", "args": ["train.py"], **requests}
    template = {"spec": {"containers": [container]}}
    workers = {"min": 2, "max": 3, "replicas": 3, "template": template}
    await world.create_job(workers=workers)
    await stage.trains(0, 1, 2)
    stage.doomed.add(1)
    lost = (await world.pods())[1]
    async with stage.trouble():
        await world.nodes[lost["spec"]["nodeName"]].vanish(delete_node=True)
    await stage.trains(0, 2)
    await world.nodes.add("d", capacity={"cpu": "1", "memory": "8Gi"})
    await stage.trains(0, 2, 3)
    await _collect(world, lost["metadata"]["name"])
    await stage.finish()


async def _collect(world: World, pod: str) -> None:
    """Delete a pod of a node that is gone, as Kubernetes' pod collector does after a minute."""
    try:
        await world.kube.delete(at("pods", world.namespace, pod), grace_seconds=0)
    except ApiError as error:
        if error.status != 404:
            raise


async def deleted(stage: Stage) -> None:
    """Delete a job whose workers train."""
    world = stage.world
    await world.nodes.add("a", capacity=BIG)
    await world.create_job(workers={"min": 2, "max": 2, "replicas": 2})
    await stage.trains(0, 1)

    async def gone() -> bool:
        return await world.pods() == [] and await world.kube.list(world.jobs()) == []

    async with stage.trouble():
        await world.kube.delete(world.jobs("job"))
        await world.until(gone)


async def suspended(stage: Stage) -> None:
    """Suspend with a checkpoint, go on from it, succeed."""
    world = stage.world
    await world.nodes.add("a", capacity=BIG)
    volume: dict[str, Any] = {"volume": {"emptyDir": {}}}
    await world.create_job(workers={"min": 2, "max": 2, "replicas": 2}, checkpoint=volume)
    await stage.trains(0, 1)
    async with stage.trouble():
        await world.patch_job({"suspend": True})
        await world.until_phase("Suspended")
        await stage.all_settled()
    await world.patch_job({"suspend": False})
    await stage.trains(2, 3)
    await stage.finish()


async def resized(stage: Stage) -> None:
    """Grow in two phases, shrink, succeed."""
    world = stage.world
    await world.nodes.add("a", capacity=BIG)
    await world.create_job(workers={"min": 1, "max": 3, "replicas": 2})
    await stage.trains(0, 1)
    async with stage.trouble():
        await world.patch_job({"workers": {"replicas": 3}})
        await stage.trains(0, 1, 2)
    await world.patch_job({"workers": {"replicas": 1}})
    await stage.trains(0)
    await world.until_job(lambda s: numbers(s.get("settled")) == {1, 2})
    await stage.finish()


async def staged(stage: Stage) -> None:
    """Train two stages, the second from the first one's checkpoint in the same pods; succeed."""
    world = stage.world
    await world.nodes.add("a", capacity=BIG)
    await world.create_job(
        workers={"min": 2, "max": 2, "replicas": 2},
        stages=[{"name": "short", "untilStep": 1_000}, {"name": "long"}],
        checkpoint={"uri": "s3://bucket"},
    )
    await stage.trains(0, 1)
    async with stage.trouble():
        world.play().may_finish_stages = 1
        await world.until_job(lambda status: status.get("world", {}).get("stage") == 1)
        await stage.trains(0, 1)
    await stage.finish()


async def searched(stage: Stage) -> None:
    """Search with two trials: one measures no number and is deleted, the other is the best."""
    world = stage.world
    await world.nodes.add("a", capacity=BIG)
    world.play("search-0").metrics["loss"] = nan
    world.play("search-1").metrics["loss"] = 0.5
    async with stage.trouble():
        await world.create_search(trials={"max": 2, "keep": "Best"})
        await stage.trains(0, job="search-1")
        world.play("search-1").may_finish.set()
        await world.until_search(lambda status: status.get("phase") == "Succeeded")

    async def only_the_best_is_left() -> bool:
        names = {job["metadata"]["name"] for job in await world.kube.list(world.jobs())}
        pods = [*await world.pods("search-0"), *await world.pods("search-1")]
        is_held = any(pod["metadata"].get("finalizers") for pod in pods)
        return names == {"search-1"} and len(pods) == 1 and not is_held

    await world.until(only_the_best_is_left)


async def evolved(stage: Stage) -> None:
    """Search by a population: the second round's trials begin from the better one's checkpoint."""
    world = stage.world
    await world.nodes.add("a", capacity=BIG)
    for number, loss in enumerate((0.9, 0.5, 0.4, 0.3)):
        play = world.play(f"search-{number}")
        play.metrics["loss"], play.saves_at_end = loss, True
    async with stage.trouble():
        await world.create_search(
            search={"population": {"size": 2, "stepsPerRound": 100}},
            trials={"max": 4},
            template={"checkpoint": {"uri": "s3://bucket"}},
        )
        for number in range(4):  # else a trial may be over before its store is known
            name = f"search-{number}"
            await world.until_job(lambda s: bool(s.get("world", {}).get("store")), name)
            world.play(name).may_finish.set()
        found = await world.until_search(lambda status: status.get("phase") == "Succeeded")
    assert [one.get("parent") for one in found["status"]["history"]] == [None, None, 1, 1]
    folder = owned_name("search-1", found["metadata"]["uid"])
    for number in (2, 3):
        job = await world.job(f"search-{number}")
        place = {"job": folder, "checkpoint": "step-100.g1"}
        assert job["spec"]["checkpoint"]["beginFrom"] == place

    async def nobody_is_held() -> bool:
        pods = [pod for number in range(4) for pod in await world.pods(f"search-{number}")]
        return not any(pod["metadata"].get("finalizers") for pod in pods)

    await world.until(nobody_is_held)


async def gives_way(stage: Stage) -> None:
    """Save and leave for a job of higher priority, come back when that has ended, succeed."""
    world = stage.world
    for name in ("a", "b"):
        await world.nodes.add(name, capacity={"cpu": "1", "memory": "8Gi"})
    requests = {"resources": {"requests": {"cpu": "1"}}}
    container = {"name": "trainer", "image": "x", "args": ["train.py"], **requests}
    template = {"spec": {"containers": [container]}}
    workers = {"min": 2, "max": 2, "replicas": 2, "template": template}
    await world.create_job(workers=workers, checkpoint={"volume": {"emptyDir": {}}})
    await stage.trains(0, 1)
    with patch.object(giving_way, "REST", timedelta(seconds=1)):
        async with stage.trouble():
            await world.create_job(
                "high",
                workers={"min": 1, "max": 1, "replicas": 1, "template": template},
                priority=100,
                placement={"preempts": "LowerPriority"},
            )
            await stage.trains(0, job="high")
        await world.until_phase("Suspended")
        await stage.all_settled()
        world.play("high").may_finish.set()
        await world.until_phase("Succeeded", "high")
        await stage.trains(2, 3)
        await stage.finish()


SCENARIOS: dict[str, Scenario] = {
    one.__name__: one
    for one in (
        *(succeeds, worker_lost, node_lost, deleted, suspended, resized),
        *(staged, searched, evolved, gives_way),
    )
}
