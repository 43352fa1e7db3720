"""Leader election on a Lease, safe under any clock skew.

Clocks of different machines are not compared: a candidate counts from when it *saw* the lease
change, as client-go does. The leader counts from before it sent its last successful renewal, and
gives up `renew_seconds` later. A candidate waits `lease_seconds`. Between the two the old leader
has time to stop.
"""

import asyncio
import datetime
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import NoReturn, Self

import msgspec

from spotrun.kube.backoff import Roll
from spotrun.kube.clock import boot_seconds, utc_now
from spotrun.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from spotrun.kube.resource import Meta, Resource
from spotrun.kube.rest.client import Client

log = logging.getLogger(__name__)

LEASES = Resource("coordination.k8s.io", "v1", "leases")


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The leader, as `kubectl get lease` shows it."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(msgspec.Struct, frozen=True, rename="camel"):
    """A `coordination.k8s.io/v1` Lease."""

    metadata: Meta
    spec: LeaseSpec = LeaseSpec()
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"


@dataclass(frozen=True)
class Terms:
    """The durations of a lease, in client-go's proportions."""

    lease_seconds: float = 15.0
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0

    def __post_init__(self) -> None:
        if not self.retry_seconds < self.renew_seconds < self.lease_seconds:
            raise ValueError(
                "a leader must retry before it gives up, and give up before its lease ends: "
                f"{self.retry_seconds} < {self.renew_seconds} < {self.lease_seconds} must hold"
            )


class Election:
    """A candidate for one lease; `async with Election(...)` takes part while its block lasts.

    `held` is set while it is the leader and `lost` while it is not. Check `leads` right before each
    action: unlike the events it is correct even if the process was frozen. Leave the block only
    after all actions have stopped, because leaving it releases the lease.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,  # of this process: a restarted one has another
        terms: Terms = Terms(),
        clock: Callable[[], float] = boot_seconds,
        wall: Callable[[], datetime.datetime] = utc_now,
        roll: Roll | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.identity = identity
        self.held = asyncio.Event()
        self.lost = asyncio.Event()
        self.lost.set()
        self.leader = ""  # the leader's identity, as last seen
        self._client = client
        self._namespace = namespace
        self._name = name
        self._terms = terms
        self._clock = clock
        self._wall = wall
        self._roll = roll or Random().random  # noqa: S311 - jitter, not a secret
        self._sleep = sleep
        self._mine: Lease | None = None  # the version that the next renewal replaces
        self._seen: Lease | None = None
        self._seen_at = 0.0
        self._until = 0.0
        self._task: asyncio.Task[NoReturn] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        led = self.leads
        self._give_up("the process ends")
        if led:
            await self._release()

    @property
    def leads(self) -> bool:
        """Whether this candidate may act now."""
        return self.held.is_set() and self._clock() < self._until

    async def _run(self) -> NoReturn:
        while True:
            try:
                async with asyncio.timeout(self._patience_seconds()):
                    await self._attempt()
            except (Conflict, AlreadyExists):
                log.debug("lease %s was changed by another replica, reading it again", self._name)
            except (KubeError, TimeoutError) as error:
                log.warning("lease %s: %s", self._name, str(error) or "no answer in time")
            except Exception:
                # A bug: a candidate that ended here would neither renew nor release its lease.
                log.exception("lease %s: the attempt failed", self._name)
            if self._clock() >= self._until:
                self._give_up("it could not be renewed")
            await self._sleep(self._pause_seconds())

    def _patience_seconds(self) -> float:
        """Return the time limit of one attempt: a leader can make two before it gives up."""
        half = self._terms.renew_seconds / 2
        return max(0.0, min(half, self._until - self._clock())) if self.held.is_set() else half

    def _pause_seconds(self) -> float:
        pause = self._terms.retry_seconds * (1 + 0.2 * self._roll())
        return max(0.0, min(pause, self._until - self._clock())) if self.held.is_set() else pause

    async def _attempt(self) -> None:
        """Renew our lease, or take a free one; the write names the version that was seen."""
        began = self._clock()
        lease = self._mine or await self._look()
        if lease is not None and not self._is_free(lease):
            self._give_up(f"{self.leader} holds it")
            return
        self._mine = None  # unknown until there is an answer
        try:
            self._mine = await self._write(lease, self._claim(lease))
        except NotFound:
            self._give_up("it was deleted")
            return
        self.leader = self.identity
        self._until = began + self._terms.renew_seconds
        if not self.held.is_set():
            log.info("lease %s is ours: %s is the leader", self._name, self.identity)
        self.lost.clear()
        self.held.set()

    async def _look(self) -> Lease | None:
        try:
            lease = await self._client.get(LEASES, self._name, Lease, namespace=self._namespace)
        except NotFound:
            return None
        self.leader = lease.spec.holder_identity or ""
        if self._seen is None or self._seen.spec != lease.spec:
            self._seen, self._seen_at = lease, self._clock()
        return lease

    def _is_free(self, lease: Lease) -> bool:
        if lease.spec.holder_identity in {None, "", self.identity}:
            return True
        # The holder uses its own durations, which differ if it is of another release.
        lasts = max(self._terms.lease_seconds, lease.spec.lease_duration_seconds or 0)
        return self._clock() - self._seen_at >= lasts

    def _claim(self, old: Lease | None) -> LeaseSpec:
        spec = old.spec if old is not None else LeaseSpec()
        now = self._wall().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        ours = spec.holder_identity == self.identity
        return LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=math.ceil(self._terms.lease_seconds),
            acquire_time=spec.acquire_time if ours else now,
            renew_time=now,
            lease_transitions=(spec.lease_transitions or 0) + (0 if ours or old is None else 1),
        )

    async def _write(self, old: Lease | None, spec: LeaseSpec) -> Lease:
        """Create the lease, or change exactly the version that was seen."""
        if old is None:
            new = Lease(Meta(name=self._name, namespace=self._namespace), spec)
            return await self._client.create(LEASES, new, Lease, namespace=self._namespace)
        patch = {"metadata": {"resourceVersion": old.metadata.resource_version}, "spec": spec}
        return await self._client.patch(LEASES, self._name, patch, Lease, namespace=self._namespace)

    def _give_up(self, why: str) -> None:
        if self.held.is_set():
            log.warning("lease %s is no longer ours: %s", self._name, why)
        self.held.clear()
        self.lost.set()

    async def _release(self) -> None:
        """Release the lease, so that the next leader need not wait until the lease ends."""
        try:
            async with asyncio.timeout(self._patience_seconds()):
                while not await self._is_released():
                    self._mine = None  # a renewal that was under way has changed it
        except (KubeError, TimeoutError) as error:
            log.warning("lease %s was not released: %s", self._name, str(error) or "no answer")

    async def _is_released(self) -> bool:
        """Release the version of the lease that is known; return False if there is a newer one."""
        lease = self._mine or await self._look()
        if lease is None or lease.spec.holder_identity != self.identity:
            return True
        free = msgspec.structs.replace(lease.spec, holder_identity="", lease_duration_seconds=1)
        with suppress(Conflict):
            await self._write(lease, free)
            return True
        return False
