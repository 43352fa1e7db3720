"""Two replicas: who answers, and what happens when another one leads."""

import asyncio

import aiohttp
import pytest

from spotrun.kube.resource import Key
from tests.integration.agents.helpers import (
    TOKEN,
    Caller,
    Replica,
    Said,
    make_identity,
    raw,
    replica,
    rest,
)
from tests.support.jobs.published_jobs import job, worker, world


async def seen(caller: Caller) -> str:
    said = await caller.poll(worker(0), TOKEN)
    assert said.status == 200
    return str(said.content["version"])


async def polling(there: Replica, caller: Caller, version: str) -> asyncio.Task[Said]:
    poll = asyncio.create_task(caller.poll(worker(0), TOKEN, version))
    await there.until_polled()
    return poll


async def test_a_standby_names_the_leader() -> None:
    async with replica() as there, Caller(there) as caller:
        there.leadership.leads, there.leadership.address = False, "10.1.2.3:8443"
        told = [await caller.poll(worker(0), token) for token in (TOKEN, None)]
        there.leadership.address = None
        nobody = await caller.poll(worker(0), TOKEN)

    assert [(said.status, said.content["leader"]) for said in told] == [(421, "10.1.2.3:8443")] * 2
    assert (nobody.status, nobody.headers["Retry-After"]) == (503, "1")


async def test_agents_follow_the_leader() -> None:
    identity = make_identity()
    async with replica(identity=identity) as first, replica(identity=identity) as second:
        for one in (first, second):
            one.board.publish(job(world("0-2")), version=1)
        second.leadership.leads = False
        async with Caller(first) as caller, Caller(second) as elsewhere:
            version = await seen(caller)
            await first.until(connections=1)
            poll = await polling(first, caller, version)
            idle = asyncio.create_task(idle_connection(first))
            await first.until(connections=2)

            first.leadership.leads, first.leadership.address = False, second.address
            second.leadership.leads = True
            stepping_down = asyncio.create_task(first.server.step_down())

            said = await asyncio.wait_for(poll, 20)
            assert not stepping_down.done(), "polls are answered, not broken off"
            await stepping_down
            await asyncio.wait_for(idle, 20)
            await first.until(connections=0)
            again = await polling(second, elsewhere, version)
            await asyncio.sleep(0.05)
            assert not again.done(), "both replicas mean the same by a version"
            again.cancel()
            await asyncio.gather(again, return_exceptions=True)

    assert said.status == 421
    assert said.content["leader"] == second.address


async def idle_connection(there: Replica) -> None:
    """A connection without a request, until the server hangs up."""
    async with raw(there) as (reader, _):
        await rest(reader)


async def test_the_phase_tells_that_a_job_is_over_and_410_that_it_is_gone() -> None:
    async with replica() as there, Caller(there) as caller:
        there.board.publish(job(world("0-2")), version=1)
        version = await seen(caller)
        poll = await polling(there, caller, version)

        there.board.withdraw(Key("team", "job"), version=2)

        held = await poll
        asked = await caller.poll(worker(0), TOKEN)
        unknown = await caller.poll(worker(0, job="other"), TOKEN)

    assert held.status == 410
    assert (asked.status, unknown.status) == (410, 404)


async def test_certificates_change_while_agents_are_connected() -> None:
    old, new = make_identity(), make_identity()
    async with replica(identity=old) as there, Caller(there) as before:
        there.board.publish(job(world("0-2")), version=1)
        version = await seen(before)
        poll = await polling(there, before, version)

        there.stored.identity = new
        await there.server.renew()

        async with Caller(there, old.bundle) as late:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await late.poll(worker(0), TOKEN)
        async with Caller(there, old.bundle + new.bundle) as both:
            assert (await both.poll(worker(1), "pod-uid-1")).status == 200
        assert there.server.bundle == new.bundle
        there.board.publish(job(world("0-2", world_number=2)), version=2)
        assert (await poll).world_number == 2


async def test_only_the_fixed_name_is_good() -> None:
    async with replica() as there, Caller(there) as caller:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await caller._session.get(f"https://{there.address}/")
