"""Limits of connections: many for workers, few and short ones before authentication.

A connection is unauthenticated until it sends a valid token. Such connections are counted by
address from the moment they connect, before any work for TLS, so that a flood uses up the limit of
its own address. If floods from many addresses use up all room, their connections are closed in
favour of addresses that have few.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from aiohttp import web

from spotrun.http.rate_limit import Buckets, Clock, Rate


@dataclass(frozen=True)
class Limits:
    """The connections that one address, one worker and all together may hold open."""

    connections: int = 18_000  # two for each of 8,000 workers, and room for others
    unauthenticated: int = 6_000  # all agents of a dead leader come, and authenticate in turns
    unauthenticated_per_address: int = 256  # a node whose pods share an address may run 110 workers
    arrivals_per_address: Rate = field(default_factory=lambda: Rate(per_second=50, burst=400))
    connections_per_worker: int = 4  # its two, and the two of an agent that has just restarted
    authentication_seconds: float = 10.0  # for TLS, and the same again for a valid token
    idle_seconds: float = 75.0  # between two requests, incomplete headers included


_CROWD = 8
"""An address loses a connection to another address that has this many times fewer unauthenticated
connections. So workers of one node do not displace each other: each has two connections."""


class OpenConnection:
    """One connection."""

    __slots__ = ("address", "greeting", "protocol", "timer", "worker")

    def __init__(self, address: str, protocol: web.RequestHandler) -> None:
        self.address = address
        self.protocol = protocol
        self.timer: asyncio.TimerHandle | None = None
        self.greeting: asyncio.Task[None] | None = None  # while TLS is being set up
        self.worker: str | None = None  # its pod's UID, once it has sent a valid token

    def close(self) -> None:
        """Close the connection now, in any state."""
        transport = self.protocol.transport
        if transport is not None:
            transport.abort()
        elif self.greeting is not None:
            self.greeting.cancel()


class Connections:
    """The open connections, within the limits."""

    def __init__(self, limits: Limits, clock: Clock = time.monotonic) -> None:
        self._limits = limits
        self._arrivals = Buckets(limits.arrivals_per_address, clock)
        self._open: dict[web.RequestHandler, OpenConnection] = {}
        self._unauthenticated: dict[str, OrderedDict[OpenConnection, None]] = {}
        self._num_unauthenticated = 0
        self._sizes: Counter[int] = Counter()  # the number of addresses by their connections
        self._largest = 0
        self._of_worker: dict[str, OrderedDict[OpenConnection, None]] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def num_unauthenticated(self) -> int:
        """The number of connections that have not sent a valid token yet."""
        return self._num_unauthenticated

    def may_connect(self, address: str) -> bool:
        """Whether another unauthenticated connection is accepted from that address."""
        arrivals = self._arrivals[address]
        here = len(self._unauthenticated.get(address, ()))
        if here >= self._limits.unauthenticated_per_address or arrivals.wait_seconds() > 0:
            return False
        if self._is_full and not self._make_room(here):
            return False
        arrivals.take()
        return True

    def add(self, address: str, protocol: web.RequestHandler) -> OpenConnection:
        """Add an unauthenticated connection."""
        opened = OpenConnection(address, protocol)
        self._open[protocol] = opened
        here = self._unauthenticated.setdefault(address, OrderedDict())
        here[opened] = None
        self._resized(len(here) - 1, len(here))
        return opened

    def authenticate(self, protocol: web.RequestHandler, worker: str) -> None:
        """Note that a connection has sent a worker's token; close the oldest if it has too many."""
        opened = self._open.get(protocol)
        if opened is None or opened.worker == worker:
            return
        if opened.worker is not None:
            self._leave_worker(opened)
        else:
            self._leave_unauthenticated(opened)
        opened.worker = worker
        mine = self._of_worker.setdefault(worker, OrderedDict())
        mine[opened] = None
        if len(mine) > self._limits.connections_per_worker:
            next(iter(mine)).close()

    def remove(self, protocol: web.RequestHandler) -> None:
        """Remove a connection that has ended."""
        opened = self._open.pop(protocol, None)
        if opened is None:
            return
        if opened.worker is None:
            self._leave_unauthenticated(opened)
        else:
            self._leave_worker(opened)

    def close_all(self) -> None:
        """Close every connection."""
        for opened in list(self._open.values()):
            opened.close()

    @property
    def _is_full(self) -> bool:
        limits = self._limits
        return (
            len(self._open) >= limits.connections
            or self._num_unauthenticated >= limits.unauthenticated
        )

    def _make_room(self, here: int) -> bool:
        """Close the oldest connection of the fullest address; return whether that was allowed."""
        if self._largest < _CROWD * (here + 1):
            return False
        fullest = max(self._unauthenticated.values(), key=len)
        first = next(iter(fullest))
        self.remove(first.protocol)
        first.close()
        return True

    def _resized(self, before: int, now: int) -> None:
        """Note a changed number of unauthenticated connections of an address."""
        self._num_unauthenticated += now - before
        self._sizes[before] -= 1
        self._sizes[now] += 1
        self._largest = max(self._largest, now)
        if not self._sizes[self._largest]:
            self._largest -= 1  # this address alone was the largest, and has one connection less

    def _leave_unauthenticated(self, opened: OpenConnection) -> None:
        if opened.timer is not None:
            opened.timer.cancel()
            opened.timer = None
        here = self._unauthenticated[opened.address]
        del here[opened]
        self._resized(len(here) + 1, len(here))
        if not here:
            del self._unauthenticated[opened.address]

    def _leave_worker(self, opened: OpenConnection) -> None:
        assert opened.worker is not None, "it has sent a token"
        mine = self._of_worker[opened.worker]
        del mine[opened]
        if not mine:
            del self._of_worker[opened.worker]
