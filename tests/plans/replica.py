"""A replica of the operator that can be killed like a process, and what starts it again.

A killed one sends nothing more, neither to the API server nor to agents, and does not let go of its
lease; what it had already sent arrives. All that it knew is lost.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from typing_extensions import override

from devcluster.addresses import free_port
from spotrun.http.tls import OwnSecret
from spotrun.kube.clock import Clock
from spotrun.kube.errors import KubeError
from spotrun.kube.lease import Terms
from spotrun.kube.resource import Key
from spotrun.kube.rest.access import Access, Credentials
from spotrun.kube.rest.client import Client
from spotrun.kube.rest.transport import JSON, REQUEST_SECONDS, Params, Transport
from spotrun.kube.workqueue.queue import WorkQueue
from spotrun.runtime.controller import Controller
from tests.support.cluster.kopf_front import fronted
from tests.support.cluster.operator_world import World

TERMS = Terms(lease_seconds=2, renew_seconds=1.5, retry_seconds=0.2)
RESTART_SECONDS = 0.1  # as quick as a kubelet ever is
_SOON_SECONDS = 5.0
"""An alarm further away than this is a refresh: paced writes wait for at most 2 s."""


class KilledError(KubeError):
    """The error that a request of a killed process ends with."""


class MortalTransport(Transport):
    """Lets nothing through after its process has been killed."""

    is_dead = False

    def die(self) -> None:
        """Cut every connection, now."""
        self.is_dead = True
        if self._session is not None and self._session.connector is not None:
            self._session.connector._close()

    @override
    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout_seconds: float = REQUEST_SECONDS,
    ) -> bytes:
        self._check()
        answer = await super().request(
            method,
            path,
            params=params,
            body=body,
            content_type=content_type,
            accept=accept,
            timeout_seconds=timeout_seconds,
        )
        self._check()
        return answer

    @override
    async def stream(
        self, path: str, *, params: Params, silence_seconds: float
    ) -> AsyncGenerator[list[bytes], None]:
        self._check()
        stream = super().stream(path, params=params, silence_seconds=silence_seconds)
        async with aclosing(stream) as several:
            async for lines in several:
                self._check()
                yield lines

    def _check(self) -> None:
        if self.is_dead:
            raise KilledError("the process has been killed")


@dataclass
class Replica:
    """One process: `run` returns when it was killed or could not start."""

    world: World
    url: str  # of the API server, or of a proxy before it
    port: int
    terms: Terms = TERMS
    clock: Callable[[], Clock] = Clock
    controller: Controller | None = None  # once it has started
    _transport: MortalTransport | None = None
    _dead: asyncio.Event = field(default_factory=asyncio.Event)

    def kill(self) -> None:
        """End it as SIGKILL does: at once, in the middle of whatever it does."""
        self._dead.set()
        if self._transport is not None:
            self._transport.die()
        if self.controller is not None:
            self.controller._election._until = float("-inf")  # whoever still gets in is sent away
            connections = self.controller._server._listener.connections
            connections.may_connect = lambda address: False  # type: ignore[method-assign]
            connections.close_all()

    async def run(self) -> None:
        """Work until killed; a start that fails ends the process, too."""

        async def load() -> Access:
            return Access(self.url)

        async with MortalTransport(Credentials(load)) as self._transport:
            client = Client(self._transport, field_manager="spotrun", clock=self.clock())
            source = OwnSecret(client, namespace=self.world.home)
            settings = self.world.settings(port=self.port, terms=self.terms)
            make = partial(Controller, settings, client, source)
            work = asyncio.create_task(self._work(fronted(make)))
            death = asyncio.create_task(self._dead.wait())
            try:
                await asyncio.wait({work, death}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                work.cancel()
                death.cancel()
                [outcome, _] = await asyncio.gather(work, death, return_exceptions=True)
                self.controller = None
        if isinstance(outcome, Exception) and not isinstance(outcome, KubeError):
            raise outcome
        await asyncio.sleep(RESTART_SECONDS)

    async def _work(self, opening: AbstractAsyncContextManager[Controller]) -> None:
        async with opening as controller:
            self.controller = controller
            await self._dead.wait()

    @property
    def leads(self) -> bool:
        """Whether it decides."""
        return self.controller is not None and self.controller.leads

    def wake(self, job: str) -> None:
        """Make it look at a job again."""
        assert self.controller is not None, "it works"
        self.controller._queue.add(Key(self.world.namespace, job), urgent=True)
        for key in self.controller._caches.tuning.all_keys():
            self.controller._search_queue.add(key)

    @property
    def is_idle(self) -> bool:
        """Whether it leads, has seen all it did, and plans nothing for the next seconds."""
        if not self.leads or self.controller is None:
            return False
        if self.controller._feed.unhandled_seconds() > 0:
            return False
        queues = (self.controller._queue, self.controller._search_queue)
        return all(_is_quiet(queue) for queue in queues)


def _is_quiet(queue: WorkQueue[Key]) -> bool:
    schedule = queue._schedule
    alarm = schedule.next_alarm()
    if schedule.waiting() or schedule.working():
        return False
    return alarm is None or alarm - time.monotonic() > _SOON_SECONDS


@dataclass
class Deployment:
    """Keeps one replica running: whenever it ends, a new process takes its place."""

    start: Callable[[], Replica]
    current: Replica | None = None
    num_kills: int = 0
    may_start: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Have processes start, until `may_start` is cleared."""
        self.may_start.set()

    def kill(self) -> None:
        """Kill the present process."""
        if self.current is not None:
            self.num_kills += 1
            self.current.kill()

    async def run(self) -> None:
        """Run replicas, one after the other, until cancelled."""
        while True:
            await self.may_start.wait()
            self.current = self.start()
            await self.current.run()

    @property
    def leader(self) -> Replica | None:
        """The present process, if it leads."""
        return self.current if self.current is not None and self.current.leads else None


@asynccontextmanager
async def deployed(
    world: World, *urls: str, clock: Callable[[], Clock] = Clock, terms: Terms = TERMS
) -> AsyncIterator[list[Deployment]]:
    """Replicas that work while the block lasts, each behind a URL of its own."""

    def starter(port: int, url: str) -> Callable[[], Replica]:
        return lambda: Replica(world, url, port, terms, clock)

    ports = [world.port, *(free_port(world.host) for _ in urls[1:])]
    deployments = [Deployment(starter(port, url)) for port, url in zip(ports, urls, strict=True)]
    async with AsyncExitStack() as stack:
        for one in deployments:
            task = asyncio.create_task(one.run())
            stack.push_async_callback(_end, one, task)
        yield deployments


async def _end(deployment: Deployment, task: asyncio.Task[None]) -> None:
    deployment.kill()
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return
