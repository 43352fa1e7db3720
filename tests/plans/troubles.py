"""The faults between the operator and the API server, each for a while.

Each is a context manager that surrounds the middle of a scenario: it begins before a worker is
lost, and ends once the fault has struck often enough to matter.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from tests.faults.rules import FOR_EVER, Rule
from tests.plans.run import Troubled

_ANY = r".*"
_WRITES = "create|update|patch|delete"
_NOT_LEASES = r"^(?!.*/leases)"

Trouble = Callable[[Troubled], AbstractAsyncContextManager[None]]


def _struck(rule: Rule, times: int) -> Callable[[], Any]:
    async def enough() -> bool:
        return rule.fired >= times

    return enough


def answers(
    status: int,
    *,
    verb: str = _ANY,
    path: str = _ANY,
    strikes: int = 5,
    retry_after: int | None = None,
) -> Trouble:
    """Requests are answered with an error until that has happened so often."""

    @asynccontextmanager
    async def trouble(it: Troubled) -> AsyncIterator[None]:
        rule = it.proxy.inject(
            Rule("reply", verb, path, times=FOR_EVER, status=status, retry_after=retry_after)
        )
        if re.fullmatch(verb, "watch"):
            it.proxy.inject(Rule("cut", "watch", path, times=3))  # to be opened again
        yield
        await it.world.until(_struck(rule, strikes))
        it.proxy.heal(rule)

    return trouble


def streams(action: Any, *, path: str = "/pods", times: int = 1, status: int = 500) -> Trouble:
    """Watches end, at once and when they are opened again."""

    @asynccontextmanager
    async def trouble(it: Troubled) -> AsyncIterator[None]:
        rule = it.proxy.inject(Rule(action, "watch", path, times=times, status=status))
        yield
        await it.world.until(_struck(rule, times))
        it.proxy.heal(rule)

    return trouble


def events(action: Any, *, path: str = "/pods", times: int = 1) -> Trouble:
    """The next events of a watch are swallowed, doubled or come again later."""

    @asynccontextmanager
    async def trouble(it: Troubled) -> AsyncIterator[None]:
        rule = it.proxy.inject(Rule(action, "watch", path, times=times, match=_tells))
        yield
        await it.world.until(_struck(rule, times))
        it.proxy.heal(rule)

    return trouble


def stalls(path: str) -> Trouble:
    """A watch says nothing, while the rest of the world moves on, for two seconds."""

    @asynccontextmanager
    async def trouble(it: Troubled) -> AsyncIterator[None]:
        rule = it.proxy.inject(Rule("stall", "watch", path))
        yield
        await asyncio.sleep(2)
        it.proxy.heal(rule)

    return trouble


def swallowed(path: str, *, strikes: int) -> Trouble:
    """All events are lost, until the stream fails and everything is listed again."""

    @asynccontextmanager
    async def trouble(it: Troubled) -> AsyncIterator[None]:
        lost = it.proxy.inject(Rule("swallow", "watch", path, times=FOR_EVER, match=_tells))
        yield
        await it.world.until(_struck(lost, strikes))
        it.proxy.heal(lost)
        it.proxy.inject(Rule("error", "watch", path, status=410))

    return trouble


def _tells(event: Any) -> bool:
    return bool(event["type"] != "BOOKMARK")


def _tells_of_an_end(event: Any) -> bool:
    return _tells(event) and "deletionTimestamp" in event["object"]["metadata"]


@asynccontextmanager
async def old_list(it: Troubled) -> AsyncIterator[None]:
    """The watch fails with 410, and an API server that lags behind answers the list."""
    path = f"/api/v1/namespaces/{it.world.namespace}/pods"
    await it.proxy.remember(path, labelSelector="spotrun.dev/job-uid")
    past = it.proxy.inject(Rule("stale_list", "list", "/pods$", times=3))
    # Before the operator knows more than the list, the list is not old.
    it.proxy.inject(Rule("error", "watch", "/pods", status=410, match=_tells_of_an_end))
    yield
    await it.world.until(_struck(past, 3))


@asynccontextmanager
async def api_server_killed(it: Troubled) -> AsyncIterator[None]:
    """The API server is killed as soon as the worker is lost, and started again."""
    yield
    control, before = it.cluster.control, len(it.proxy.log)

    async def missed() -> bool:
        return len(it.proxy.log) >= before + 3

    control.kill("kube-apiserver")
    try:
        await it.world.until(missed)
    finally:
        control.start("kube-apiserver")
        await asyncio.to_thread(control.wait_ready)


@asynccontextmanager
async def leader_cut_off(it: Troubled) -> AsyncIterator[None]:
    """All that the leader sends is held back, until another one leads; then it arrives."""
    leading = next(n for n, one in enumerate(it.deployments) if one.leader is not None)
    other, proxy = it.deployments[1 - leading], it.proxies[leading]

    async def took_over() -> bool:
        return other.leader is not None

    rule = proxy.inject(Rule("hold", times=FOR_EVER))
    yield
    await it.world.until(took_over)
    proxy.heal(rule)


TROUBLES: Mapping[str, Trouble] = {
    "throttled writes": answers(429, verb=_WRITES, path=_NOT_LEASES, strikes=2, retry_after=1),
    "throttled": answers(429, strikes=8, retry_after=1),
    "500 to everything": answers(500, strikes=15),
    "503 to writes": answers(503, verb=_WRITES),
    "504 to reads": answers(504, verb="list|watch|get"),
    "401 to everything": answers(401, strikes=15),
    "403 to everything": answers(403, strikes=15),
    "403 to writes": answers(403, verb=_WRITES, path=_NOT_LEASES, strikes=3),
    "409 to status": answers(409, verb="patch", path="/status", strikes=3),
    "500 to leases": answers(500, path="/leases", strikes=10),
    "watches cut": streams("cut", path=_ANY, times=3),
    "pods cut": streams("cut", times=3),
    "pods gone (410)": streams("error", status=410, times=3),
    "jobs gone (410)": streams("error", path="/trainingjobs", status=410, times=3),
    "nodes gone (410)": streams("error", path="/nodes", status=410, times=3),
    "pods 500 in stream": streams("error", status=500, times=3),
    "pods 504 in stream": streams("error", status=504, times=3),
    "pods 429 in stream": streams("error", status=429, times=3),
    "pods swallowed": events("swallow"),
    "a job swallowed": events("swallow", path="/trainingjobs"),
    "jobs swallowed until listed": swallowed("/trainingjobs", strikes=1),
    "pods twice": events("duplicate", times=3),
    "pods replayed": events("replay", times=2),
    "jobs replayed": events("replay", path="/trainingjobs", times=2),
    "pods stall": stalls("/pods"),
    "jobs stall": stalls("/trainingjobs"),
    "pods swallowed until listed": swallowed("/pods", strikes=2),
    "an old list": old_list,
    "API server killed": api_server_killed,
    "leader cut off": leader_cut_off,
}

ESSENTIAL = (
    "throttled writes",
    "500 to everything",
    "403 to everything",
    "watches cut",
    "pods gone (410)",
    "a job swallowed",
    "pods swallowed until listed",
    "an old list",
    "pods stall",
    "API server killed",
    "leader cut off",
)
"""One trouble of each sort, for every change."""
