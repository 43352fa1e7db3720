"""Clocks that are wrong by an hour: no job is ended for it, and none costs more."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from devcluster.client import Manifest
from spotrun.http.tls import OwnSecret
from spotrun.kube.clock import Clock, utc_now
from spotrun.kube.rest.access import Credentials, from_kubeconfig
from spotrun.kube.rest.client import Client
from spotrun.kube.rest.transport import Transport
from spotrun.runtime.controller import Controller
from tests.integration.money.helpers import add_node, all_settled, assert_agrees, workers
from tests.meter.meter import Meter
from tests.support.cluster.kopf_front import fronted
from tests.support.cluster.operator_world import World

LIMITS: dict[str, Any] = {
    "budget": {"maxCostUsd": "8", "onExceeded": "Fail"},
    "deadline": {"finishWithin": "30m", "onMissed": "Fail"},
    "scaling": {"mode": "Manual"},
}
"""One worker costs $9 an hour, and $0.87 are kept back: within the hour the job would be over."""


class Wall:
    """This machine's clock."""

    ahead = timedelta(0)

    def __call__(self) -> datetime:
        return utc_now() + self.ahead


async def test_a_clock_that_jumps_ahead_ends_no_job_and_costs_nothing(
    world: World, meter: Meter
) -> None:
    await add_node(world, "a", "36")
    wall = Wall()
    async with _operator(world, wall):
        await world.create_job(workers={**workers(3), "replicas": 1}, **LIMITS)
        await world.until_phase("Running")

        wall.ahead = timedelta(hours=1)
        await _is_decided_about(world, replicas=2, members="0-1")
        wall.ahead = timedelta(0)
        await _is_decided_about(world, replicas=3, members="0-2")

        await _ends_well(world, meter)


async def test_a_replica_with_a_wrong_clock_that_takes_over_ends_no_job(
    world: World, meter: Meter
) -> None:
    await add_node(world, "a", "36")
    wall = Wall()
    async with _operator(world, wall):
        await world.create_job(workers={**workers(2), "replicas": 1}, **LIMITS)
        await world.until_phase("Running")

    wall.ahead = timedelta(hours=1)
    async with _operator(world, wall):
        await _is_decided_about(world, replicas=2, members="0-1")
        await _ends_well(world, meter)


async def _is_decided_about(world: World, *, replicas: int, members: str) -> None:
    await world.patch_job({"workers": {"replicas": replicas}})

    def holds(status: Manifest) -> bool:
        found = status["world"]
        is_so = found["members"] == members and found["active"]
        return bool(is_so or status["phase"] == "Failed")

    await world.until_job(holds)


async def _has_cost(world: World) -> bool:
    """Kubernetes tells whole seconds: what begins and ends within one has cost nothing."""
    conditions = [one for pod in await world.pods() for one in pod["status"]["conditions"]]
    bound = [c["lastTransitionTime"] for c in conditions if c["type"] == "PodScheduled"]
    return datetime.now(UTC) >= datetime.fromisoformat(min(bound)) + timedelta(seconds=1)


async def _ends_well(world: World, meter: Meter) -> None:
    await world.until(partial(_has_cost, world))
    world.play().may_finish.set()
    job = await world.until_job(lambda s: s["phase"] == "Failed" or all_settled(s))
    status = job["status"]
    assert (status["phase"], status["reason"]) == ("Succeeded", "Completed"), status["message"]
    await assert_agrees(job, meter)


@asynccontextmanager
async def _operator(world: World, wall: Wall) -> AsyncIterator[Controller]:
    """A replica on a machine with that clock."""
    credentials = Credentials(from_kubeconfig(world.cluster.kubeconfig))
    async with Transport(credentials) as transport:
        client = Client(transport, field_manager="spotrun", clock=Clock(wall))
        source = OwnSecret(client, namespace=world.namespace)
        make = partial(Controller, world.settings(), client, source)
        async with fronted(make) as controller:
            yield controller
