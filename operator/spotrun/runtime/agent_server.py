"""The server that agents connect to: it starts and stops as one object."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from spotrun.agents.long_poll import Board
from spotrun.agents.routes import Agents, App, Authenticator, Leadership, RequestLimits
from spotrun.http.connection_limits import Limits
from spotrun.http.listener import Listener
from spotrun.http.tls import Identity, Source, server_context, show
from spotrun.kube.clock import utc_now
from spotrun.kube.errors import KubeError
from spotrun.kube.resource import Key
from spotrun.kube.tasks import running
from spotrun.metrics.registry import Meter

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """The address and the limits of the agents' server."""

    host: str = ""  # every address
    port: int = 8443
    limits: Limits = field(default_factory=Limits)
    request_limits: RequestLimits = field(default_factory=RequestLimits)
    renewal_seconds: float = 600.0  # how often certificates are read again
    step_down_seconds: float = 1.0  # for the last answers of a leader that steps down


class Server:
    """Serves agents while its `async with` block lasts; standbys only name the leader.

    Call `step_down` when leadership is lost: it sends all agents away, open polls included.
    """

    def __init__(
        self,
        settings: Settings,
        board: Board,
        agents: Agents,
        tokens: Authenticator,
        leadership: Leadership,
        *,
        source: Source,
        identity: Identity,
        wake: Callable[[Key], None],
        meter: Meter | None = None,
        wall: Callable[[], datetime] = utc_now,
    ) -> None:
        self.identity = identity
        self._settings = settings
        self._board = board
        self._source = source
        self._tls = server_context()
        show(self._tls, identity.serving)
        app = App(
            board,
            agents,
            tokens,
            leadership,
            wake,
            request_limits=settings.request_limits,
            count=meter.count_request if meter is not None else lambda _what, _status: None,
            wall=wall,
        )
        self._listener = Listener(
            app.handle,
            self._tls,
            host=settings.host,
            port=settings.port,
            limits=settings.limits,
        )
        app.authenticate = self._listener.connections.authenticate
        if meter is not None:
            self._watch(meter)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._listener.port

    @property
    def num_connections(self) -> int:
        """The number of open connections, unauthenticated ones included."""
        return len(self._listener.connections)

    @property
    def bundle(self) -> str:
        """The authorities that new pods must trust: SPOTRUN_CA."""
        return self.identity.bundle

    async def step_down(self) -> None:
        """Answer every open poll, with the leader's address if it is known, then disconnect."""
        self._board.forget()
        await asyncio.sleep(self._settings.step_down_seconds)
        self._listener.connections.close_all()

    async def renew(self) -> None:
        """Read the certificate again; use a newer one from now on."""
        identity = await self._source.load()
        if identity.serving != self.identity.serving:
            show(self._tls, identity.serving)
            log.info("the operator serves agents with a new certificate")
        self.identity = identity

    async def __aenter__(self) -> Self:
        self._stack = contextlib.AsyncExitStack()
        await self._stack.enter_async_context(self._listener)
        await self._stack.enter_async_context(running(self._keep_renewing()))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _keep_renewing(self) -> None:
        while True:
            await asyncio.sleep(self._settings.renewal_seconds)
            try:
                await self.renew()
            except (KubeError, OSError, ValueError) as error:
                # The present certificate is valid for weeks.
                log.warning(
                    "the certificates could not be read, the old ones stay in use: %s", error
                )

    def _watch(self, meter: Meter) -> None:
        connections = self._listener.connections
        meter.agent_polls.set_function(lambda: self._board.num_polls)
        unknown = meter.agent_connections.labels("stranger")
        unknown.set_function(lambda: connections.num_unauthenticated)
        known = meter.agent_connections.labels("known")
        known.set_function(lambda: len(connections) - connections.num_unauthenticated)
