"""What agents are told by a leader who has led before, and knows what was so then."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import aiohttp
import pytest

from devcluster.client import at
from spotrun.api import names
from spotrun.http.tls import OwnSecret
from spotrun.kube.resource import Key
from spotrun.kube.rest.access import Access, Credentials
from spotrun.kube.rest.client import Client
from spotrun.kube.rest.connector import Connector
from spotrun.kube.rest.transport import Transport
from spotrun.runtime.agent_server import Settings
from spotrun.runtime.controller import Controller
from spotrun.runtime.reconciler import Reconciler
from tests.faults.proxy import FaultProxy
from tests.faults.rules import FOR_EVER, Rule
from tests.support.cluster.kopf_front import fronted
from tests.support.cluster.operator_world import World

ONE = {"min": 1, "max": 1, "replicas": 1}


async def test_a_new_reign_does_not_say_what_the_former_one_knew(world: World) -> None:
    await world.nodes.add("a", capacity={"cpu": "64", "memory": "64Gi"})
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        api = world.cluster.admin
        proxy = await enter(FaultProxy(api.server, api.ssl_context()))
        first = await enter(_behind(world, proxy))
        await world.create_job(workers=ONE)
        await world.until_phase("Running")
        await world.kube.delete(world.jobs("job"))
        await world.until_no_pods()
        async with _another(world) as second:
            rule = proxy.inject(Rule("reply", path="/leases", times=FOR_EVER))
            await _until_leading(second)
            proxy.heal(rule)
            await world.create_job(workers=ONE)
            await world.until_phase("Running")
            worker = await enter(_asking(world))
            may_survey = _hold_up_survey(first)
        await _until_leading(first)

        before = await _ask(world, worker)
        may_survey.set()
        statuses = [before]
        async with asyncio.timeout(30):
            while statuses[-1] != 200:
                statuses.append(await _ask(world, worker))

        assert set(statuses) == {503, 200}
        assert before == 503


async def test_a_new_leader_begins_with_jobs_that_lost_a_worker(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.nodes.add("a", capacity={"cpu": "64", "memory": "64Gi"})
    jobs = [f"job-{number}" for number in range(8)]
    async with world.operator():
        for job in jobs:
            await world.create_job(job, workers=ONE)
        for job in jobs:
            await world.until_phase("Running", job)
    [pod] = await world.pods("job-5")
    await world.kube.delete(at("pods", world.namespace, pod["metadata"]["name"]))
    looked_at: list[str] = []
    reconcile = Reconciler.reconcile

    async def noted(self: Reconciler, key: Key, leading_since: float) -> float:
        looked_at.append(key.name)
        return await reconcile(self, key, leading_since)

    async def all_looked_at() -> bool:
        return set(looked_at) == set(jobs)

    monkeypatch.setattr(Reconciler, "reconcile", noted)

    async with world.operator(workers=1):
        await world.until(all_looked_at)

    assert looked_at[0] == "job-5"


@asynccontextmanager
async def _behind(world: World, proxy: FaultProxy) -> AsyncIterator[Controller]:
    async def load() -> Access:
        return Access(proxy.url)

    async with Transport(Credentials(load)) as transport:
        client = Client(transport, field_manager="spotrun")
        source = OwnSecret(client, namespace=world.namespace)
        make = partial(Controller, world.settings(), client, source)
        async with fronted(make) as controller:
            yield controller


@asynccontextmanager
async def _another(world: World) -> AsyncIterator[Controller]:
    """A second replica, at an address of its own."""
    host = world.cluster.block.pod_address()
    agents = Settings(host=host, port=world.port, step_down_seconds=0.1)
    address = f"{host}:{world.port}"
    async with world.operator(
        address=address, advertise=address, agents=agents, plain_host=host
    ) as controller:
        yield controller


async def _until_leading(controller: Controller) -> None:
    async with asyncio.timeout(30):
        await controller._election.held.wait()


def _hold_up_survey(controller: Controller) -> asyncio.Event:
    """Have the first look at all jobs take its time, as it does where there are thousands."""
    survey, may_survey = controller._caches.survey, asyncio.Event()

    async def slow() -> None:
        await may_survey.wait()
        await survey()

    controller._caches.survey = slow  # type: ignore[method-assign]
    return may_survey


@asynccontextmanager
async def _asking(world: World) -> AsyncIterator[aiohttp.ClientSession]:
    """Whoever has the token of the job's worker."""
    agent = world.agent(0)
    tls = ssl.create_default_context(cadata=agent.context.env[names.ENV_CA])
    headers = {"Authorization": f"Bearer {await agent._token()}"}
    async with aiohttp.ClientSession(headers=headers, connector=Connector(tls)) as session:
        yield session


async def _ask(world: World, session: aiohttp.ClientSession) -> int:
    worker = world.agent(0).context.env[names.ENV_WORKER]
    path = f"/v1/jobs/{world.namespace}/job/workers/{worker}/world?seen=nothing"
    async with session.get(
        f"https://{world.host}:{world.port}{path}", server_hostname=names.SERVER_NAME
    ) as answer:
        return answer.status
