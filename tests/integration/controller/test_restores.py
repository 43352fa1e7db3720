"""etcd restored from a copy: the operator goes on from what there is now."""

import asyncio
import shutil

from devcluster.client import at
from devcluster.cluster import Cluster
from spotrun.runtime.controller import Controller
from tests.support.cluster.operator_world import World

SERVERS = ("kube-apiserver", "etcd")
NUM_LATER = 1_000
"""Revisions that the copy does not know. A cluster as small as this one makes a few a second: until
they have come again, whoever waits for newer ones hears nothing."""


async def test_an_operator_takes_the_older_state_and_says_that_it_was_blind(alone: World) -> None:
    world, cluster = alone, alone.cluster
    await world.nodes.add("a", capacity={"cpu": "64", "memory": "64Gi"})
    async with world.operator() as controller:
        await world.create_job("kept", workers={"min": 1, "max": 2, "replicas": 1})
        await world.until_phase("Running", "kept")
        await asyncio.to_thread(_copy, cluster)
        await _write_much(world)
        await world.create_job("lost", workers={"min": 1, "max": 1})
        await world.until_phase("Running", "lost")
        assert controller._unready() is None

        await asyncio.to_thread(_restore, cluster)
        await world.create_job("new", workers={"min": 1, "max": 1})

        await world.until(lambda: _says_that_it_is_blind(controller))
        # No further: the kubelets that are played here wait for newer revisions, too.
        await world.until(lambda: _has_workers(world, "new", 1))
        await world.patch_job({"workers": {"replicas": 2}}, "kept")
        await world.until(lambda: _has_workers(world, "kept", 2))
        await world.until(lambda: _is_ready(controller))


def _copy(cluster: Cluster) -> None:
    _stop(cluster)
    shutil.copytree(cluster.directory / "etcd", cluster.directory / "copy")
    _start(cluster)


def _restore(cluster: Cluster) -> None:
    _stop(cluster)
    shutil.rmtree(cluster.directory / "etcd")
    shutil.copytree(cluster.directory / "copy", cluster.directory / "etcd")
    _start(cluster)


def _stop(cluster: Cluster) -> None:
    for server in SERVERS:
        cluster.control.kill(server)


def _start(cluster: Cluster) -> None:
    for server in reversed(SERVERS):
        cluster.control.start(server)
    cluster.control.wait_ready()


async def _write_much(world: World) -> None:
    path = at("configmaps", world.namespace)
    for begin in range(0, NUM_LATER, 20):
        names = (f"later-{number}" for number in range(begin, begin + 20))
        await asyncio.gather(
            *(world.kube.create(path, {"metadata": {"name": name}}) for name in names)
        )


async def _says_that_it_is_blind(controller: Controller) -> bool:
    return "the API server shows an older state" in (controller._unready() or "")


async def _has_workers(world: World, job: str, number: int) -> bool:
    return len(await world.pods(job)) == number


async def _is_ready(controller: Controller) -> bool:
    return controller._unready() is None
