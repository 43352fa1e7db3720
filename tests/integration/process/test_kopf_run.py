"""The operator as `kopf run` starts it: a job lives, news come in, and it ends in order."""

import asyncio
from pathlib import Path

import pytest

from tests.faults.proxy import FaultProxy
from tests.faults.rules import Rule
from tests.integration.process.helpers import (
    IN_ORDER_SECONDS,
    Launcher,
    launching,
    token,
    write_kubeconfig,
)
from tests.support.cluster.operator_world import World

ROOM = {"cpu": "64", "memory": "64Gi"}


async def test_a_job_lives_under_kopf_run(world: World, operator: Launcher) -> None:
    await world.nodes.add("a", capacity=ROOM)
    replica = await operator.start_kopf()
    await replica.until_leading()
    await world.create_job(workers={"min": 2, "max": 2, "replicas": 2})
    await world.until_phase("Running")
    assert await replica.get(replica.at.liveness_port, "/healthz") == (200, "ok\n")
    assert await replica.get(replica.at.metrics_port, "/readyz") == (200, "ok\n")

    # Nothing but kopf's handler says that a person has changed a job.
    await world.patch_job({"suspend": True})
    await world.until_phase("Suspended")
    await world.kube.delete(world.jobs("job"))
    await world.until_no_pods()
    assert await replica.stop() < IN_ORDER_SECONDS


@pytest.mark.parametrize("status", [429, 500, 504])
async def test_an_error_in_a_stream_ends_nobody(
    world: World, account: Path, proxy: FaultProxy, tmp_path: Path, status: int
) -> None:
    # Each of these ends a process whose streams kopf reads itself.
    there = write_kubeconfig(world.cluster, token(world.cluster), tmp_path / "faulty", proxy.url)
    async with launching(world, there, tmp_path) as operator:
        replica = await operator.start_kopf()
        await replica.until_leading()
        await world.create_job(suspend=True)
        await world.until_phase("Suspended")
        rule = proxy.inject(Rule("error", "watch", "/trainingjobs", status=status, times=2))
        await asyncio.wait_for(rule.struck.wait(), 30)
        await world.kube.delete(world.jobs("job"))
        await world.create_job("other", suspend=True)
        await world.until_phase("Suspended", "other")
        await replica.stop()


async def test_a_wrong_start_fails(operator: Launcher) -> None:
    replica = await operator.start_kopf(SPOTRUN_WORKERS="many")
    assert await replica.ended() == 1
    assert "'many' is not in its range" in replica.text


async def test_a_port_in_use_fails(operator: Launcher) -> None:
    first = await operator.start_kopf()
    await first.until_leading()
    second = await operator.start_kopf(where=first.at)
    assert await second.ended() == 1
    assert "address already in use" in second.text.lower()


async def test_which_namespace_is_served_is_not_kopfs_to_say(operator: Launcher) -> None:
    replica = await operator.start_kopf(namespaces=("--namespace", "ml"))
    assert await replica.ended() == 1
    assert "SPOTRUN_WATCH_NAMESPACE chooses one namespace" in replica.text
