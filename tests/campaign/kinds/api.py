"""Faults between the operator and the API server, made by the fault proxy."""

from collections.abc import Mapping
from typing import Any

from tests.campaign.ground import Ground, Needs
from tests.campaign.kinds.kind import Kind
from tests.campaign.plan import Fault
from tests.faults.rules import FOR_EVER, Action, Rule

WRITES = "create|update|patch|delete"
NOT_LEASES = r"^(?!.*/(leases|tokenreviews|subjectaccessreviews))"
_STREAMS = ("/pods", "/trainingjobs", "/nodes")
_WHILE_SECONDS = 2.0
_LAG_SECONDS = 1.0


def at_write(action: Action, status: int = 500) -> Kind:
    """Strike the nth write itself."""

    def rule(fault: Fault) -> Rule:
        return Rule(action, verb=WRITES, path=NOT_LEASES, nth=fault.at, status=status)

    return Kind(rule=rule, is_exact=True)


def refused(status: int, *, verb: str = ".*", path: str = ".*", after: int | None = None) -> Kind:
    """Answer requests with an error for two seconds."""

    async def strike(ground: Ground, _: Fault) -> None:
        rule = Rule("reply", verb, path, times=FOR_EVER, status=status, retry_after=after)
        await ground.inject(rule, _WHILE_SECONDS)

    return Kind(strike, is_exact=True)


def stream(action: Action, *, times: int = 1, status: int = 500) -> Kind:
    """Strike what is told next of pods, jobs or nodes."""

    async def strike(ground: Ground, fault: Fault) -> None:
        path = _STREAMS[fault.target % len(_STREAMS)]
        match = None if action in {"cut", "error"} else tells
        await ground.inject(
            Rule(action, "watch", path, times=times, status=status, match=match), _WHILE_SECONDS
        )

    return Kind(strike, is_exact=True)


def tells(event: Any) -> bool:
    """Whether an event of a stream is more than a bookmark."""
    return bool(event["type"] != "BOOKMARK")


async def _gap(ground: Ground, fault: Fault) -> None:
    """All events of a kind are lost, until the stream ends with 410 and all is listed."""
    path = _STREAMS[fault.target % len(_STREAMS)]
    lost = Rule("swallow", "watch", path, times=FOR_EVER, match=tells)
    await ground.inject(lost, _WHILE_SECONDS)
    await ground.inject(Rule("error", "watch", path, status=410), 0.5)


async def _bookmarks(ground: Ground, fault: Fault) -> None:
    """A stream says that nothing happens, then ends; what happened comes with the next one."""
    path = _STREAMS[fault.target % len(_STREAMS)]
    rule = Rule("bookmarks", "watch", path, times=FOR_EVER, match=tells)
    await ground.inject(rule, _WHILE_SECONDS)


async def _stale(ground: Ground, fault: Fault) -> None:
    """The next three lists are as old as this moment, and streams end before them."""
    namespace = ground.world.namespace
    kinds: Mapping[str, str] = {
        f"/api/v1/namespaces/{namespace}/pods": "spotrun.dev/job-uid",
        f"/apis/spotrun.dev/v1alpha1/namespaces/{namespace}/trainingjobs": "",
    }
    path, selector = list(kinds.items())[fault.target % len(kinds)]
    if selector:
        await ground.proxy.remember(path, labelSelector=selector)
    else:
        await ground.proxy.remember(path)
    kind = path.rpartition("/")[2]
    old = Rule("stale_list", "list", f"^{path}$", times=3)
    end = Rule("error", "watch", f"/{kind}$", status=410, match=tells)
    ground.proxy.inject(end)
    await ground.inject(old, 2 * _WHILE_SECONDS)
    ground.proxy.heal(end)


async def _second_server(ground: Ground, _: Fault) -> None:
    """Lists and watches go to an API server that hears of everything a second late, and back."""
    assert ground.second_server is not None, "it needs one"
    ground.second_server.lag_seconds = _LAG_SECONDS
    for url in (ground.second_server.url, None):
        for proxy in ground.proxies:
            proxy.read_from = url
        # Streams move there one after the other, with what they have seen already.
        cut = Rule("cut", "watch", NOT_LEASES, times=len(_STREAMS))
        await ground.inject(cut, 2 * _WHILE_SECONDS if url else 0.5)


async def _silent(ground: Ground, _: Fault) -> None:
    """All open connections say nothing for three seconds."""
    await ground.inject(Rule("stall", "watch"), 1.5 * _WHILE_SECONDS)


async def _slow(ground: Ground, _: Fault) -> None:
    """Every request of four seconds is held for two at most."""
    for _nth in range(2):
        await ground.inject(Rule("hold", path=NOT_LEASES, times=FOR_EVER), _WHILE_SECONDS)


async def _mute(ground: Ground, _: Fault) -> None:
    """Requests end without an answer, done or not."""
    drop = Rule("drop", times=FOR_EVER, verb="get|list|watch|patch")
    await ground.inject(drop, _WHILE_SECONDS)
    await ground.inject(Rule("lose_answer", times=FOR_EVER, verb=WRITES), 0.5)


async def _pods_refused(ground: Ground, _: Fault) -> None:
    """An admission webhook refuses every pod for a while."""
    rule = Rule("reply", "create", "/pods$", times=FOR_EVER, status=403)
    await ground.inject(rule, _WHILE_SECONDS)


KINDS: dict[str, Kind] = {
    "crash_before": at_write("crash_before"),
    "crash_after": at_write("crash_after"),
    "write_ambiguous": at_write("lose_answer"),
    "write_ambiguous_500": at_write("replace_answer", 500),
    "write_ambiguous_504": at_write("replace_answer", 504),
    "write_dropped": at_write("drop"),
    "write_conflict": at_write("reply", 409),
    "stale_read": Kind(_stale, is_exact=True),
    "second_api_server": Kind(
        _second_server, is_exact=True, is_in_ci=False, needs=Needs(has_second_server=True)
    ),
    "watch_gap": Kind(_gap, is_exact=True),
    "watch_410": stream("error", times=3, status=410),
    "watch_500": stream("error", times=3, status=500),
    "watch_cut": stream("cut", times=3),
    "watch_duplicate": stream("duplicate", times=3),
    "watch_reordered": stream("replay", times=2),
    "watch_bookmarks": Kind(_bookmarks, is_exact=True),
    "watch_silent": Kind(_silent, is_exact=True),
    "api_429": refused(429, after=1),
    "api_500": refused(500),
    "api_401": refused(401),
    "api_timeouts": Kind(_mute, is_exact=True),
    "api_slow": Kind(_slow, is_exact=True),
    "rbac_taken": refused(403),
    "rbac_writes_taken": refused(403, verb=WRITES, path=NOT_LEASES),
    "pods_refused": Kind(_pods_refused, is_exact=True),
}
