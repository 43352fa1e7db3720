"""Faults of the operator's process, of its cluster, and of what it may do there."""

import asyncio
import base64
import http.client
import json
import time
from contextlib import closing
from datetime import timedelta

from devcluster.client import ApiError, at
from tests.campaign.ground import TERMS, Ground
from tests.campaign.kinds.api import NOT_LEASES
from tests.campaign.kinds.kind import Kind, Strike
from tests.campaign.plan import Fault
from tests.faults.rules import FOR_EVER, Rule

_LEASES = "coordination.k8s.io/v1"
_WHILE_SECONDS = 2.0


def _leader(ground: Ground) -> int:
    leading = (n for n, one in enumerate(ground.deployments) if one.leader is not None)
    return next(leading, 0)


async def _killed(ground: Ground, _: Fault) -> None:
    ground.deployments[_leader(ground)].kill()


async def _stopped(ground: Ground, _: Fault) -> None:
    """All that the leader sends waits until another leads, and then arrives."""
    leading = _leader(ground)
    rule = ground.proxies[leading].inject(Rule("hold", times=FOR_EVER))

    async def taken_over() -> bool:
        return ground.deployments[1 - leading].leader is not None

    try:
        await ground.world.until(taken_over)
    finally:
        ground.proxies[leading].heal(rule)


async def _two_leaders(ground: Ground, _: Fault) -> None:
    """The lease is deleted, so another takes it while the leader believes to have it."""
    rule = Rule("hold", path="/leases", times=FOR_EVER)
    leading = _leader(ground)
    ground.proxies[leading].inject(rule)
    await _lease_deleted(ground, Fault("", 1))
    await asyncio.sleep(_WHILE_SECONDS)
    ground.proxies[leading].heal(rule)


async def _lease_deleted(ground: Ground, _: Fault) -> None:
    path = at("leases", ground.world.home, group=_LEASES)
    for lease in await ground.world.kube.list(path):
        try:
            await ground.world.kube.delete(f"{path}/{lease['metadata']['name']}")
        except ApiError as error:
            if error.status != 404:
                raise


async def _paused(_: Ground, fault: Fault) -> None:
    """The process stands still, its agents too, for longer than its lease lasts."""
    time.sleep(TERMS.lease_seconds + fault.target)  # noqa: ASYNC251  (that is the fault)


def _jump(hours: int) -> Strike:
    """The wall clock of the operator's machine jumps, and a while later back."""

    async def strike(ground: Ground, _: Fault) -> None:
        ground.shift.by = timedelta(hours=hours)
        await asyncio.sleep(_WHILE_SECONDS)
        ground.shift.by = timedelta()

    return strike


def _started_off(hours: int) -> Strike:
    """The operator is killed and starts again on a machine whose clock is an hour off."""

    async def strike(ground: Ground, fault: Fault) -> None:
        ground.shift.by = timedelta(hours=hours)
        await _killed(ground, fault)
        await asyncio.sleep(2 * _WHILE_SECONDS)
        ground.shift.by = timedelta()

    return strike


async def _api_server_restarted(ground: Ground, _: Fault) -> None:
    await _restart(ground, "kube-apiserver")
    # While it is away their pauses grow to 30 s, in which no pod is scheduled. Where they elect a
    # leader, as in all but test clusters, they end when they cannot renew, and begin anew.
    for component in ("kube-controller-manager", "kube-scheduler"):
        ground.cluster.control.kill(component)
        ground.cluster.control.start(component)


async def _etcd_restarted(ground: Ground, _: Fault) -> None:
    await _restart(ground, "etcd")


async def _restart(ground: Ground, component: str) -> None:
    control = ground.cluster.control
    ground.is_blind = True
    control.kill(component)
    try:
        await asyncio.sleep(1)
    finally:
        control.start(component)
    await asyncio.to_thread(control.wait_ready)


async def _compacted(ground: Ground, _: Fault) -> None:
    """All that etcd knows of the past is forgotten, and streams begin anew: with a real 410."""
    await asyncio.to_thread(_compact, ground)
    cut = Rule("cut", "watch", path=NOT_LEASES, times=3)
    await ground.inject(cut, 1)


def _compact(ground: Ground) -> None:
    layout = ground.cluster.control.layout
    address = f"{layout.host}:{layout.ports.etcd}"
    key = base64.b64encode(b"/").decode()
    header = _ask(address, "/v3/kv/range", {"key": key})["header"]
    _ask(address, "/v3/kv/compaction", {"revision": header["revision"], "physical": True})


def _ask(address: str, path: str, body: dict[str, object]) -> dict[str, dict[str, str]]:
    connection = http.client.HTTPConnection(address, timeout=20)
    with closing(connection):
        connection.request("POST", path, json.dumps(body))
        content: dict[str, dict[str, str]] = json.load(connection.getresponse())
    return content


async def _quota_shrunk(ground: Ground, _: Fault) -> None:
    path = at("resourcequotas", ground.world.namespace)
    quota = {"metadata": {"name": "shrunk"}, "spec": {"hard": {"pods": "1"}}}
    try:
        await ground.world.kube.create(path, quota)
    except ApiError as error:
        if error.status != 409:
            raise
    await asyncio.sleep(_WHILE_SECONDS)
    try:
        await ground.world.kube.delete(f"{path}/shrunk")
    except ApiError as error:
        if error.status != 404:
            raise


KINDS: dict[str, Kind] = {
    "operator_killed": Kind(_killed, is_exact=True),
    "leader_stopped": Kind(_stopped, replicas=2, is_exact=True),
    "process_paused": Kind(_paused, is_exact=True, is_alone=True),
    "two_leaders": Kind(_two_leaders, replicas=2, is_exact=True),
    "lease_deleted": Kind(_lease_deleted, replicas=2, is_exact=True),
    "clock_ahead": Kind(_jump(1), is_exact=True),
    "clock_behind": Kind(_jump(-1), is_exact=True),
    "started_ahead": Kind(_started_off(1), is_exact=True),
    "started_behind": Kind(_started_off(-1), is_exact=True),
    "quota_shrunk": Kind(_quota_shrunk),
    "api_server_restarted": Kind(_api_server_restarted, is_exact=True, is_alone=True),
    "etcd_restarted": Kind(_etcd_restarted, is_exact=True, is_alone=True),
    "etcd_compacted": Kind(_compacted, is_exact=True, is_alone=True),
}
