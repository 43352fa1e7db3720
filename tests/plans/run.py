"""One run of a scenario: the operator behind the fault proxy, watched by somebody independent."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from devcluster.client import Client, at
from devcluster.cluster import Cluster
from spotrun.api import names
from tests.faults.proxy import FaultProxy, Request
from tests.faults.rules import Rule
from tests.plans.endstate import differences, end_state, summary
from tests.plans.history import History, recorded, worlds
from tests.plans.replica import Deployment, Replica, deployed
from tests.plans.safety import violations
from tests.plans.scenarios import Scenario, Stage, Trouble
from tests.plans.writes import Write, writes_of
from tests.support.cluster.operator_world import GROUP, World, open_world

_KINDS = {
    "trainingjobs": GROUP,
    "tuningjobs": GROUP,
    "pods": "v1",
    "poddisruptionbudgets": "policy/v1",
    "networkpolicies": "networking.k8s.io/v1",
    "secrets": "v1",
    "configmaps": "v1",  # with kept reports; whether a bill is there by now, time alone decides
}
_TOLD = frozenset({"create events"})
"""Events are for people, limited by the hour, and not worth a second attempt."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run."""

    state: dict[str, Any]
    writes: list[Write]
    violations: list[str]
    writes_when_quiet: list[Write]
    num_kills: int
    worlds: list[frozenset[int]]  # the members of every world that was entered, in their order

    def complaints(self, undisturbed: "Outcome") -> list[str]:
        """All that a run should not have done."""
        return [
            *self.violations,
            *(f"{write} without a reason" for write in self.writes_when_quiet),
            *differences(undisturbed.state, self.state),
        ]


@dataclass
class Troubled:
    """The things that a fault can lay its hands on while a scenario runs."""

    cluster: Cluster
    world: World
    proxies: list[FaultProxy]
    deployments: list[Deployment]

    @property
    def proxy(self) -> FaultProxy:
        """The proxy of the first replica."""
        return self.proxies[0]


TroubleFor = Callable[[Troubled], Trouble]


async def run(
    cluster: Cluster,
    scenario: Scenario,
    *,
    rule: Rule | None = None,
    trouble: TroubleFor | None = None,
    replicas: int = 1,
) -> Outcome:
    """Play a scenario to its end, and look what has become of it."""
    async with _set(cluster, rule, replicas) as (it, history):
        stage = Stage(it.world)
        if trouble is not None:
            stage.trouble = trouble(it)
        await scenario(stage)
        quiet = await _writes_when_quiet(it)
        state = await look(it.world, history)
        seen = history.in_order()
        log = [request for proxy in it.proxies for request in proxy.log]
        return Outcome(
            state=state,
            writes=writes_of(it.proxy.log),
            violations=violations(seen, removed=removed_by(log), doomed=stage.doomed),
            writes_when_quiet=quiet,
            num_kills=sum(one.num_kills for one in it.deployments),
            worlds=worlds(seen),
        )


@asynccontextmanager
async def _set(
    cluster: Cluster, rule: Rule | None, replicas: int
) -> AsyncIterator[tuple[Troubled, History]]:
    admin = cluster.admin
    async with (
        open_world(cluster) as world,
        FaultProxy(admin.server, admin.ssl_context()) as first,
        FaultProxy(admin.server, admin.ssl_context()) as second,
        recorded(world.kube, world.namespace) as history,
    ):
        proxies = [first, second][:replicas]
        if rule is not None:
            first.inject(rule)
        async with deployed(world, *(proxy.url for proxy in proxies)) as deployments:
            first.on_crash = deployments[0].kill
            yield Troubled(cluster, world, proxies, deployments), history


async def _writes_when_quiet(it: Troubled) -> list[Write]:
    """Return what is written once all is done, though the job is looked at twice more."""

    async def idle() -> Replica | None:
        leaders = [one.leader for one in it.deployments if one.leader is not None]
        return leaders[0] if leaders and leaders[0].is_idle else None

    await it.world.until(idle)
    before = [len(proxy.log) for proxy in it.proxies]
    for _ in range(2):
        leader: Replica = await it.world.until(idle)
        leader.wake("job")
    await it.world.until(idle)
    logs = [proxy.log[n:] for proxy, n in zip(it.proxies, before, strict=True)]
    return [write for log in logs for write in writes_of(log)]


async def look(world: World, history: History) -> dict[str, Any]:
    # The operator's own Secret counts wherever it lives.
    places = dict.fromkeys((world.namespace, world.home))
    objects = {
        kind: [one for place in places for one in await _list(world.kube, kind, place)]
        for kind in _KINDS
    }
    for kind in ("pods", "trainingjobs"):
        if objects[kind]:
            newest = max(int(one["metadata"]["resourceVersion"]) for one in objects[kind])
            await history.has_seen(newest, objects[kind][0]["kind"])
    owners = [*objects["trainingjobs"], *objects["tuningjobs"]]
    words = {one["metadata"]["uid"]: "<uid>" for one in owners}
    words |= {world.namespace: "<namespace>", f"{world.host}:{world.port}": "<operator>"}
    words |= _templates(objects)
    state = end_state(objects, words)
    return {**state, "workers": summary(history.in_order())}


def _templates(objects: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    """Return stand-ins for the templates of jobs that begin from another one's checkpoint.

    They name a folder that has a hash of the search's UID in its name.
    """
    children = {
        job["metadata"]["name"]
        for job in objects["trainingjobs"]
        if (job["spec"].get("checkpoint") or {}).get("beginFrom")
    }
    labels = [pod["metadata"]["labels"] for pod in objects["pods"]]
    return {
        one[names.LABEL_TEMPLATE]: f"<template of {one[names.LABEL_JOB]}>"
        for one in labels
        if one[names.LABEL_JOB] in children
    }


async def _list(kube: Client, kind: str, namespace: str) -> list[dict[str, Any]]:
    chosen = {"labelSelector": str(names.LABEL_REPORT)} if kind == "configmaps" else {}
    return await kube.list(at(kind, namespace, group=_KINDS[kind]), **chosen)


def removed_by(log: list[Request]) -> set[str]:
    """The UIDs of the pods that the operator asked to delete."""
    bodies = (r.body for r in log if r.verb == "delete" and "/pods/" in r.path)
    return {b["preconditions"]["uid"] for b in bodies if b and "preconditions" in b}
