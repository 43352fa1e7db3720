"""Tests, and the operators in them, are not in the way of what else runs on a machine."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from spotrun.runtime.options import Options
from tests.integration.process.helpers import Launcher
from tests.support.cluster.operator_world import World

ROOM = {"cpu": "64", "memory": "64Gi"}
PAIR = {"min": 2, "max": 2, "replicas": 2}


@pytest.fixture(autouse=True)
def usual_ports_are_taken() -> Iterator[None]:
    """Something listens at every address, on each port that the operator takes by default."""
    usual = Options()
    with ExitStack() as stack:
        for port in (usual.agents_port, usual.metrics_port, usual.liveness_port):
            with suppress(OSError):  # somebody else's is as good
                stack.enter_context(socket.create_server(("", port)))
        yield


async def test_an_operator_in_the_tests_process_serves_its_agents(world: World) -> None:
    await world.nodes.add("a", capacity=ROOM)
    async with world.operator():
        await world.create_job(workers=PAIR)
        await world.until_phase("Running")


async def test_an_operator_of_its_own_process_serves_its_agents(
    world: World, operator: Launcher
) -> None:
    await world.nodes.add("a", capacity=ROOM)
    replica = await operator.start()
    await replica.until_leading()
    await world.create_job(workers=PAIR)
    await world.until_phase("Running")
    await replica.stop()
