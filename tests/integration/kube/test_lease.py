"""Leader election on a real Lease: never two at once, whatever happens to the leader's requests."""

import asyncio
import datetime
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from devcluster.cluster import Cluster
from spotrun.kube.clock import boot_seconds
from spotrun.kube.lease import LEASES, Election, Lease, Terms
from spotrun.kube.rest.access import Access, Credentials
from spotrun.kube.rest.client import Client
from spotrun.kube.rest.transport import Transport
from tests.faults.proxy import FaultProxy
from tests.faults.rules import FOR_EVER, Action, Rule
from tests.integration.kube.helpers import Space

# Short for a test; in these proportions they are the defaults'.
TERMS = Terms(lease_seconds=2.0, renew_seconds=1.0, retry_seconds=0.2)
LONG = Terms(lease_seconds=60.0, renew_seconds=30.0, retry_seconds=0.2)
"""Terms so long that no test waits for their end."""


@asynccontextmanager
async def candidate(
    cluster: Cluster,
    space: Space,
    name: str,
    *,
    terms: Terms = TERMS,
    wall_offset_hours: int = 0,
) -> AsyncIterator[tuple[Election, FaultProxy]]:
    """A candidate with a fault proxy of its own."""

    async def load() -> Access:
        return Access(proxy.url)

    def wall() -> datetime.datetime:
        now = datetime.datetime.now(datetime.UTC)
        return now + datetime.timedelta(hours=wall_offset_hours)

    async with AsyncExitStack() as stack:
        admin = cluster.admin
        proxy = await stack.enter_async_context(FaultProxy(admin.server, admin.ssl_context()))
        transport = await stack.enter_async_context(Transport(Credentials(load)))
        election = Election(
            Client(transport, field_manager="test"),
            namespace=space.namespace,
            name="leader",
            identity=name,
            terms=terms,
            wall=wall,
        )
        yield election, proxy


async def wait(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), 20)


async def lease(space: Space) -> Lease:
    return await space.client.get(LEASES, "leader", Lease, namespace=space.namespace)


async def test_the_second_leads_as_soon_as_the_first_leaves(cluster: Cluster, space: Space) -> None:
    async with (
        candidate(cluster, space, "one", terms=LONG) as (one, _),
        candidate(cluster, space, "two", terms=LONG) as (two, proxy),
        AsyncExitStack() as first,
    ):
        await first.enter_async_context(one)
        await wait(one.held)
        async with two:
            await proxy.seen("get", "leases", times=3)
            assert (one.leads, two.leads, two.leader) == (True, False, "one")
            began = boot_seconds()
            await first.aclose()
            assert not one.leads
            await wait(two.held)
            assert boot_seconds() - began < LONG.lease_seconds, "the lease was released"
            spec = (await lease(space)).spec
            assert (spec.holder_identity, spec.lease_transitions) == ("two", 1)


async def test_a_renewal_that_was_under_way_does_not_keep_the_lease(
    cluster: Cluster, space: Space
) -> None:
    """It may arrive after the leader that leaves has read the lease."""
    rarely = Terms(lease_seconds=60.0, renew_seconds=30.0, retry_seconds=20.0)
    async with candidate(cluster, space, "one", terms=rarely) as (one, _), one:
        await wait(one.held)
        renewed = {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}
        await space.client.patch(LEASES, "leader", renewed, dict, namespace=space.namespace)
    assert (await lease(space)).spec.holder_identity == ""


async def test_of_two_that_start_at_once_one_leads(cluster: Cluster, space: Space) -> None:
    async with (
        candidate(cluster, space, "one") as (one, first),
        candidate(cluster, space, "two") as (two, second),
        one,
        two,
    ):
        await first.seen("get|create|patch", "leases", times=4)
        await second.seen("get|create|patch", "leases", times=4)
        assert one.leads is not two.leads


@pytest.mark.parametrize(("action", "status"), [("reply", 500), ("hold", 500), ("drop", 500)])
async def test_a_leader_that_cannot_renew_stops_before_the_next_starts(
    cluster: Cluster, space: Space, action: Action, status: int
) -> None:
    async with (
        candidate(cluster, space, "one") as (one, proxy),
        candidate(cluster, space, "two") as (two, _),
        one,
    ):
        await wait(one.held)
        async with two:
            proxy.inject(Rule(action, path="leases", status=status, times=FOR_EVER))
            stopped, started = await asyncio.gather(when(one.lost), when(two.held))
            assert started - stopped >= 0.5 * (TERMS.lease_seconds - TERMS.renew_seconds)
            assert not one.leads
            # Its requests are still in the air, or answered late; two leads nevertheless.
            assert two.leads


async def test_one_lost_answer_does_not_cost_the_lead(cluster: Cluster, space: Space) -> None:
    async with candidate(cluster, space, "one") as (one, proxy), one:
        await wait(one.held)
        lost = proxy.inject(Rule("lose_answer", "patch", "leases"))
        await wait(lost.struck)
        renewals = sum(r.verb == "patch" for r in proxy.log)
        await proxy.seen("patch", "leases", times=renewals + 3)
        assert one.leads
        assert not one.lost.is_set()


async def test_clocks_that_are_hours_apart_matter_to_nobody(cluster: Cluster, space: Space) -> None:
    async with (
        candidate(cluster, space, "one", wall_offset_hours=-5) as (one, _),
        candidate(cluster, space, "two", wall_offset_hours=5) as (two, proxy),
        one,
    ):
        await wait(one.held)
        async with two:
            looks = round(1.5 * TERMS.lease_seconds / TERMS.retry_seconds)
            await proxy.seen("get", "leases", times=looks)
            assert (one.leads, two.leads) == (True, False)
            assert one.held.is_set()


async def test_a_leader_stops_when_somebody_else_is_in_the_lease(
    cluster: Cluster, space: Space
) -> None:
    async with candidate(cluster, space, "one") as (one, _), one:
        await wait(one.held)
        theirs = {"spec": {"holderIdentity": "somebody"}, "metadata": {"labels": {"by": "hand"}}}
        await space.client.patch(LEASES, "leader", theirs, dict, namespace=space.namespace)
        await wait(one.lost)
        await wait(one.held)  # somebody does not renew
        left = await space.client.get(LEASES, "leader", dict[str, Any], namespace=space.namespace)
        assert left["spec"]["leaseTransitions"] == 1, "it was taken from somebody"
        assert left["metadata"]["labels"] == {"by": "hand"}, "what is not ours stays"


async def test_a_deleted_lease_ends_the_lead_and_is_made_again(
    cluster: Cluster, space: Space
) -> None:
    async with candidate(cluster, space, "one") as (one, _), one:
        await wait(one.held)
        uid = (await lease(space)).metadata.uid
        await space.client.delete(LEASES, "leader", uid=uid, namespace=space.namespace)
        await wait(one.lost)
        await wait(one.held)
        assert (await lease(space)).spec.holder_identity == "one"


async def when(event: asyncio.Event) -> float:
    await wait(event)
    return boot_seconds()
