"""The reflector against a real API server, with everything going wrong in between."""

import asyncio
import time
from typing import Any

import pytest

from spotrun.kube.backoff import Backoff
from spotrun.kube.rest.client import Client
from spotrun.kube.watch.reflector import Timing
from tests.faults.proxy import FaultProxy
from tests.faults.rules import FOR_EVER, Rule, event_is
from tests.integration.kube.helpers import PATIENT, Space, following


def num_lists(proxy: FaultProxy) -> int:
    """How often everything was listed; to learn the newest version one object is asked for."""
    return sum(r.verb == "list" and r.query["limit"] != "1" for r in proxy.log)


async def test_changes_are_told_in_order(client: Client, space: Space) -> None:
    await space.put("a")
    async with following(client, space.selection) as it:
        b = await space.put("b")
        await space.put("b", x="1")
        await space.delete(b)
        await it.until_said("+a", "+b", "~b", "-b")
        assert it.names() == {"a"}
        assert it.reflector.last_version > b.metadata.version


async def test_what_leaves_the_selection_is_gone(client: Client, space: Space) -> None:
    await space.put("a")
    async with following(client, space.selection) as it:
        space_client = space.client
        patch = {"metadata": {"labels": {"test": "no"}}}
        await space_client.patch(
            space.selection.resource, "a", patch, dict, namespace=space.namespace
        )
        await it.until_said("+a", "-a")


async def test_long_lists_come_in_pages(client: Client, space: Space, proxy: FaultProxy) -> None:
    for number in range(7):
        await space.put(f"m{number}")
    async with following(client, space.selection, page=3) as it:
        assert len(it.names()) == 7
        assert num_lists(proxy) == 3


async def test_an_object_of_a_megabyte_passes(client: Client, space: Space) -> None:
    async with following(client, space.selection) as it:
        await space.client.create(
            space.selection.resource,
            {
                "metadata": {"name": "big", "labels": {"test": "yes"}},
                "data": {"x": "x" * 1_000_000},
            },
            dict,
            namespace=space.namespace,
        )
        await it.until_said("+big")
        big = it.reflector.get(space.namespace, "big")
        assert big is not None
        assert len(big.data["x"]) == 1_000_000


async def test_a_deletion_lost_before_a_410_is_found_by_the_list(
    client: Client, space: Space, proxy: FaultProxy
) -> None:
    """K1 of the facts: here kopf keeps the object for ever."""
    doomed = await space.put("a")
    await space.put("b")
    lost = proxy.inject(Rule("swallow", "watch", space.path, match=event_is("DELETED", "a")))
    async with following(client, space.selection) as it:
        await proxy.seen("watch", space.path)
        await space.delete(doomed)
        await asyncio.wait_for(lost.struck.wait(), 10)
        proxy.inject(Rule("error", "watch", space.path, status=410))
        await it.until_said("+a", "+b", "-a")


async def test_a_recreated_object_ends_the_old_one_first(
    client: Client, space: Space, proxy: FaultProxy
) -> None:
    old = await space.put("a")
    blind = proxy.inject(Rule("swallow", "watch", space.path, match=lambda _: True, times=2))
    async with following(client, space.selection) as it:
        await proxy.seen("watch", space.path)
        await space.delete(old)
        new = await space.put("a")
        await asyncio.wait_for(blind.struck.wait(), 10)
        proxy.inject(Rule("error", "watch", space.path, status=410))
        await it.until_said("+a", "-a", "+a")
        seen = it.reflector.get(space.namespace, "a")
        assert seen is not None
        assert seen.metadata.uid == new.metadata.uid


@pytest.mark.parametrize("status", [410, 429, 500, 504])
async def test_an_error_in_the_stream_is_survived(
    client: Client, space: Space, proxy: FaultProxy, status: int
) -> None:
    async with following(client, space.selection) as it:
        broken = Rule("error", "watch", space.path, status=status, times=3, retry_after=1)
        proxy.inject(broken)
        await proxy.seen("watch", space.path, times=4)
        await space.put("a")
        await it.until_said("+a")
        assert broken.fired == 3
        assert num_lists(proxy) == (4 if status == 410 else 1)
        assert all(pause >= 1 for pause in it.pauses), "Retry-After is obeyed"


@pytest.mark.parametrize("status", [401, 403, 410, 429, 500, 503])
async def test_refusals_for_a_while_are_survived(
    client: Client, space: Space, proxy: FaultProxy, status: int
) -> None:
    await space.put("a")
    async with following(client, space.selection) as it:
        outage = proxy.inject(Rule("reply", "list|watch", status=status, times=FOR_EVER))
        proxy.inject(Rule("cut", "watch", space.path))
        await it.until(lambda: outage.fired >= 6)
        await space.put("b")
        proxy.heal(outage)
        await it.until_said("+a", "+b")
        await space.put("c")
        await it.until_said("+a", "+b", "+c")
        await it.until(lambda: it.reflector.failures == 0)


async def test_a_410_in_the_middle_of_a_list_starts_it_again(
    client: Client, space: Space, proxy: FaultProxy
) -> None:
    for name in "abcde":
        await space.put(name)
    expired = proxy.inject(Rule("reply", "list", space.path, nth=2, status=410))
    async with following(client, space.selection, page=2) as it:
        assert expired.fired == 1
        assert it.said == ["+a", "+b", "+c", "+d", "+e"]


async def test_a_cut_stream_is_taken_up_where_it_was(
    client: Client, space: Space, proxy: FaultProxy
) -> None:
    await space.put("a")
    async with following(client, space.selection) as it:
        await proxy.seen("watch", space.path)
        for name in "bcd":
            proxy.inject(Rule("cut", "watch", space.path))
            await space.put(name)
        await it.until_said("+a", "+b", "+c", "+d")
        assert num_lists(proxy) == 1


async def test_a_silent_stream_is_given_up(client: Client, space: Space, proxy: FaultProxy) -> None:
    timing = Timing(silence_seconds=0.5, relist_seconds=600, backoff=PATIENT.backoff)
    stall = proxy.inject(Rule("stall", "watch", space.path))
    async with following(client, space.selection, timing) as it:
        await asyncio.wait_for(stall.struck.wait(), 10)
        await space.put("a")
        await it.until_said("+a")
        assert it.pauses == [], "it is noticed, and is no failure"
        assert num_lists(proxy) == 1


async def test_a_quiet_kind_is_no_failure(client: Client, space: Space, proxy: FaultProxy) -> None:
    timing = Timing(silence_seconds=1, relist_seconds=600, backoff=PATIENT.backoff)
    async with following(client, space.selection, timing) as it:
        await proxy.seen("watch", space.path, times=3)
        assert (it.pauses, it.reflector.failures) == ([], 0)
        assert it.reflector.age_seconds() < 2 * timing.silence_seconds
        await space.put("a")
        await it.until_said("+a")
        assert num_lists(proxy) == 1


async def test_age_grows_while_nothing_is_heard(
    client: Client, space: Space, proxy: FaultProxy
) -> None:
    timing = Timing(silence_seconds=0.2, relist_seconds=600, backoff=PATIENT.backoff)
    async with following(client, space.selection, timing) as it:
        outage = proxy.inject(Rule("reply", "list|watch", status=503, times=FOR_EVER))
        await it.until(lambda: outage.fired >= 3 and it.reflector.age_seconds() > 0.2)
        proxy.heal(outage)
        await space.put("a")
        await it.until_said("+a")
        assert it.reflector.age_seconds() < 5


async def test_a_swallowed_event_is_healed_by_the_next_list(
    client: Client, space: Space, proxy: FaultProxy
) -> None:
    timing = Timing(silence_seconds=60, relist_seconds=1.5, backoff=PATIENT.backoff)
    doomed = await space.put("a")
    proxy.inject(Rule("swallow", "watch", space.path, match=event_is("DELETED", "a")))
    async with following(client, space.selection, timing) as it:
        await proxy.seen("watch", space.path)
        await space.delete(doomed)
        await it.until_said("+a", "-a")


async def test_who_misses_an_event_asks_for_a_list(
    client: Client, space: Space, proxy: FaultProxy
) -> None:
    timing = Timing(60, 600, relist_least_seconds=0.5, backoff=PATIENT.backoff)
    lost = proxy.inject(Rule("swallow", "watch", space.path, match=event_is("ADDED", "a")))
    async with following(client, space.selection, timing) as it:
        await proxy.seen("watch", space.path)
        await space.put("a")
        await asyncio.wait_for(lost.struck.wait(), 10)
        began = time.monotonic()
        for _ in range(5):
            it.reflector.relist()
            await asyncio.sleep(0.2)
        await it.until_said("+a")
        most = 2 + (time.monotonic() - began) / timing.relist_least_seconds
        lists = num_lists(proxy)
        assert 2 <= lists <= most, "not as often as it was asked"
        assert (it.pauses, it.reflector.failures) == ([], 0)
        await space.put("b")
        await it.until_said("+a", "+b")


async def test_duplicated_and_replayed_events_change_nothing(
    client: Client, space: Space, proxy: FaultProxy
) -> None:
    proxy.inject(Rule("duplicate", "watch", space.path, match=lambda _: True, times=FOR_EVER))
    proxy.inject(Rule("replay", "watch", space.path, match=event_is("ADDED", "c")))
    async with following(client, space.selection) as it:
        await proxy.seen("watch", space.path)
        a = await space.put("a")
        await space.put("b")
        await space.delete(a)
        await space.put("c")
        await space.put("d")
        await it.until_said("+a", "+b", "-a", "+c", "+d")


async def test_a_list_of_the_past_is_refused(
    client: Client, space: Space, proxy: FaultProxy
) -> None:
    doomed = await space.put("a")
    await proxy.remember(space.path, labelSelector="test=yes")
    async with following(client, space.selection) as it:
        await space.delete(doomed)
        await space.put("b")
        await it.until_said("+a", "-a", "+b")
        stale = proxy.inject(Rule("stale_list", "list", space.path, times=3))
        proxy.inject(Rule("error", "watch", space.path, status=410))
        await it.until(lambda: stale.fired == 3)
        await space.put("c")
        await it.until_said("+a", "-a", "+b", "+c")
        assert it.names() == {"b", "c"}


async def test_an_unreadable_object_keeps_its_state_and_spoils_no_other(
    client: Client, space: Space, proxy: FaultProxy
) -> None:
    await space.put("a", x="1")
    async with following(client, space.selection) as it:
        await it.until_said("+a")
        # Nobody can store such a config map, so the proxy stands in for a changed schema.
        await proxy.remember(space.path, spoil, labelSelector="test=yes")
        proxy.inject(Rule("stale_list", "list", space.path))
        proxy.inject(Rule("error", "watch", space.path, status=410))
        await proxy.seen("watch", space.path, times=2)
        assert [key.name for key in it.reflector.unreadable] == ["a"]
        a = it.reflector.get(space.namespace, "a")
        assert a is not None
        assert a.data == {"x": "1"}
        await space.put("a", x="2")
        await it.until_said("+a", "~a")
        assert not it.reflector.unreadable


def spoil(page: Any) -> None:
    page["items"][0]["data"] = 5


def test_the_default_timing_is_that_of_the_design() -> None:
    assert Timing() == Timing(75.0, 600.0, 10.0, Backoff(0.2, 15.0))
