"""The things that a fault can lay its hands on, and the count of writes that is its clock."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ssl import SSLContext

from typing_extensions import override

from devcluster.client import Manifest
from devcluster.cluster import Cluster
from spotrun.kube.clock import Clock, utc_now
from spotrun.kube.lease import Terms
from tests.campaign.agents import FaultyPlay
from tests.campaign.patient_client import PatientClient
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

    def __init__(self, upstream: str, tls: SSLContext, moments: Moments) -> None:
        super().__init__(upstream, tls)
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
    released: set[int] = field(default_factory=set)  # workers whose finalizer the fault took off

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

    async def settled(self) -> None:
        """Wait until an operator leads that has nothing to do in the next seconds."""

        async def idle() -> bool:
            return any(one.leader is not None and one.leader.is_idle for one in self.deployments)

        await self.world.until(idle)

    async def pod(self, target: int) -> Manifest | None:
        """Return one of the job's pods that is bound and not on its way out, if there is any."""
        pods = [
            pod
            for pod in await self.world.pods()
            if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
        ]
        return pods[target % len(pods)] if pods else None


@asynccontextmanager
async def opened(cluster: Cluster, replicas: int, *, is_exact: bool) -> AsyncIterator[Ground]:
    """A fresh namespace with an operator of its own."""
    admin, shift, moments = cluster.admin, Shift(), Moments()
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(open_world(cluster))
        world.kube = await stack.enter_async_context(PatientClient(admin))
        play = FaultyPlay()
        world.plays["job"] = play
        proxies = [
            await stack.enter_async_context(
                CountedProxy(admin.server, admin.ssl_context(), moments)
            )
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
        )
