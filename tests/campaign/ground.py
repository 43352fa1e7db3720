"""The things that a fault can lay its hands on, and the count of writes that is its clock."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ssl import SSLContext

from typing_extensions import override

from devcluster.client import Manifest, at
from devcluster.cluster import Cluster
from devcluster.nodes import Machine
from spotrun.kube.clock import Clock, utc_now
from spotrun.kube.lease import Terms
from tests.campaign.agents import FaultyPlay
from tests.campaign.patient_client import PatientClient
from tests.campaign.rights import Rights, limited
from tests.campaign.second_server import SecondServer, second_server
from tests.faults.proxy import FaultProxy, Request
from tests.faults.rules import Rule
from tests.meter.meter import Meter, metered
from tests.plans.history import History, recorded
from tests.plans.replica import Deployment, deployed
from tests.plans.scenarios import Stage
from tests.plans.writes import writes_of
from tests.support.cluster.operator_world import World, open_world

TERMS = Terms(lease_seconds=4, renew_seconds=3, retry_seconds=0.3)
"""Long enough for a loop in which several operators run."""


@dataclass
class Moments:
    """Counts the operator's writes, whichever replica makes them."""

    count: int = 0
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def note(self, request: Request) -> None:
        if not writes_of([request]):
            return
        self.count += 1
        async with self._news:
            self._news.notify_all()

    async def reached(self, nth: int) -> None:
        """Return when so many writes have been answered."""
        async with self._news:
            await self._news.wait_for(lambda: self.count >= nth)


class CountedProxy(FaultProxy):
    """A fault proxy that says when a write has been answered."""

    def __init__(
        self, upstream: str, tls: SSLContext, moments: Moments, *, token: str | None = None
    ) -> None:
        super().__init__(upstream, tls, token=token)
        self._moments = moments

    @override
    async def _answered(self, request: Request, status: int) -> None:
        await super()._answered(request, status)
        await self._moments.note(request)


@dataclass
class Shift:
    """An error of the wall clock of the operator's machine."""

    by: timedelta = timedelta()

    def clock(self) -> Clock:
        return Clock(wall=self.now)

    def now(self) -> datetime:
        return utc_now() + self.by


@dataclass(frozen=True)
class Needs:
    """The parts of a ground that only some faults need."""

    has_home: bool = False  # the operator has a namespace of its own
    has_account: bool = False  # the operator has the rights of the shipped roles, and no more
    has_second_server: bool = False

    def __or__(self, other: "Needs") -> "Needs":
        return Needs(
            self.has_home or other.has_home,
            self.has_account or other.has_account,
            self.has_second_server or other.has_second_server,
        )


@dataclass
class Ground:
    """One scenario's world, its operator, and who watches."""

    cluster: Cluster
    world: World
    stage: Stage
    play: FaultyPlay
    proxies: Sequence[FaultProxy]
    deployments: list[Deployment]
    moments: Moments
    history: History
    meter: Meter
    shift: Shift
    rights: Rights | None = None  # of the operator, where they are not all
    second_server: SecondServer | None = None
    is_job_ended: asyncio.Event = field(default_factory=asyncio.Event)  # by a fault, for good
    released: set[int] = field(default_factory=set)  # workers whose finalizer the fault took off
    is_blind: bool = False  # the API server was away: what came and went meanwhile nobody has seen

    @property
    def proxy(self) -> FaultProxy:
        return self.proxies[0]

    async def inject(self, rule: Rule, seconds: float) -> None:
        """Have a rule hold for a while at every replica."""
        for proxy in self.proxies:
            proxy.inject(rule)
        await asyncio.sleep(seconds)
        for proxy in self.proxies:
            proxy.heal(rule)

    async def machine(self, name: str) -> Machine:
        """Return the machine of a node, once there is one: a fault may come before it."""

        async def found() -> Machine | None:
            return self.world.nodes.get(name)

        machine: Machine = await self.world.until(found)
        return machine

    async def settled(self) -> None:
        """Wait until an operator leads that has nothing to do soon, and Kubernetes has counted.

        Its disruption controller writes the status of a budget when it comes to that, which is
        seconds after an API server was away: a budget is compared once its pods are counted.
        """

        async def idle() -> bool:
            return any(one.leader is not None and one.leader.is_idle for one in self.deployments)

        await self.world.until(idle)
        await self.world.until(self._are_budgets_counted)

    async def _are_budgets_counted(self) -> bool:
        namespace = self.world.namespace
        budgets = await self.world.kube.list(
            at("poddisruptionbudgets", namespace, group="policy/v1")
        )
        for budget in budgets:
            labels = budget["spec"]["selector"]["matchLabels"]
            chosen = ",".join(f"{key}={value}" for key, value in labels.items())
            pods = await self.world.kube.list(at("pods", namespace), labelSelector=chosen)
            status = budget.get("status", {})
            seen, counted = status.get("observedGeneration"), status.get("expectedPods")
            if (seen, counted) != (budget["metadata"]["generation"], len(pods)):
                return False
        return True

    async def pod(self, target: int) -> Manifest | None:
        """Return one of the job's pods that is bound and not on its way out, if there is any."""
        pods = [
            pod
            for pod in await self.world.pods()
            if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
        ]
        return pods[target % len(pods)] if pods else None


@asynccontextmanager
async def opened(
    cluster: Cluster, replicas: int, *, is_exact: bool, needs: Needs = Needs()
) -> AsyncIterator[Ground]:
    """A fresh namespace with an operator of its own."""
    admin, shift, moments = cluster.admin, Shift(), Moments()
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(open_world(cluster))
        world.kube = await stack.enter_async_context(PatientClient(admin))
        if needs.has_home:
            world.home = await stack.enter_async_context(_home(world))
        rights = await stack.enter_async_context(limited(world)) if needs.has_account else None
        other = second_server(cluster) if needs.has_second_server else nullcontext()
        second = await stack.enter_async_context(other)
        play = FaultyPlay()
        world.plays["job"] = play
        proxies = [
            await stack.enter_async_context(_proxy(cluster, moments, rights))
            for _ in range(replicas)
        ]
        history = await stack.enter_async_context(recorded(world.kube, world.namespace))
        meter = await stack.enter_async_context(metered(world.kube, world.namespace))
        urls = [proxy.url for proxy in proxies]
        deployments = await stack.enter_async_context(
            deployed(world, *urls, clock=shift.clock, terms=TERMS)
        )
        for proxy, deployment in zip(proxies, deployments, strict=True):
            proxy.on_crash = deployment.kill
        stage = Stage(world, is_exact=is_exact)
        yield Ground(
            cluster,
            world,
            stage,
            play,
            proxies,
            deployments,
            moments,
            history,
            meter,
            shift,
            rights,
            second,
        )


def _proxy(cluster: Cluster, moments: Moments, rights: Rights | None) -> CountedProxy:
    admin = cluster.admin
    if rights is None:
        return CountedProxy(admin.server, admin.ssl_context(), moments)
    tls = ssl.create_default_context(cafile=str(admin.ca_file))
    return CountedProxy(admin.server, tls, moments, token=rights.token)


@asynccontextmanager
async def _home(world: World) -> AsyncIterator[str]:
    """A namespace for the operator alone, as the chart has it."""
    name = f"{world.namespace}-home"
    await world.kube.create(at("namespaces"), {"metadata": {"name": name}})
    try:
        yield name
    finally:
        await world.kube.delete(at("namespaces", None, name))
