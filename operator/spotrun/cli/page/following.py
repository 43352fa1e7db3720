"""Followers: one of all jobs and pools, for all browsers, and one of a job's pods and Events."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, TypeVar

from spotrun.api.names import LABEL_JOB
from spotrun.cli.cluster.session import Cluster
from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.pool_model import Pool
from spotrun.cli.page.places import Places
from spotrun.cli.page.views.fleet import Fleet, JobRow, PoolRow, job_row, pool_row
from spotrun.cli.page.views.history import Sample, sample_of, with_sample
from spotrun.cli.page.views.job import JobView, Seen, job_view
from spotrun.cli.page.views.limits import Limit, LimitRow, limit_row
from spotrun.cli.page.views.timeline import Life, ended, life_of
from spotrun.kube.errors import Forbidden, KubeError, NotFound
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Selection
from spotrun.kube.tasks import running
from spotrun.kube.watch.reflector import Reflector
from spotrun.observe.kube_objects import (
    CAPACITY_POOLS,
    EVENTS,
    PODS,
    SPEND_LIMITS,
    TRAINING_JOBS,
    EventObject,
    PodObject,
)

_SYNC_SECONDS = 10.0
_FAILURES_TO_SAY = 2
Row = TypeVar("Row")
Version = tuple[int, int, int, tuple[str, ...]]


class Bell:
    """Wakes all streams that wait for news."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Event] = set()

    def ring(self) -> None:
        """Wake all."""
        for one in self._waiting:
            one.set()

    @asynccontextmanager
    async def heard(self) -> AsyncIterator[asyncio.Event]:
        """Yield an event that each ring sets, while the block lasts."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            yield event
        finally:
            self._waiting.discard(event)


class FleetFollower:
    """All jobs and pools, as they are now."""

    def __init__(self, cluster: Cluster, scope: str | None, hidden: tuple[str, ...]) -> None:
        self.bell = Bell()
        self.hidden = hidden
        self._cluster = cluster
        self._rows: dict[str, JobRow] = {}
        self._pool_rows: dict[str, PoolRow] = {}
        self._limit_rows: dict[str, LimitRow] = {}
        self._samples: dict[str, tuple[Sample, ...]] = {}
        self._changed: dict[Key, int] = {}
        self._changes = self._pool_changes = 0
        self.jobs = Reflector(cluster.client, Selection(TRAINING_JOBS, scope), Job, self._on_job)
        self.pools = Reflector(cluster.client, Selection(CAPACITY_POOLS), Pool, self._on_pool)
        limits = Selection(SPEND_LIMITS, scope)
        self.limits = Reflector(cluster.client, limits, Limit, self._on_limit)

    def now(self) -> Fleet:
        """Return all rows."""
        limits = dict(self._limit_rows)
        return Fleet(dict(self._rows), dict(self._pool_rows), self.notes, limits)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes that every browser shows."""
        lost = self.jobs.failures >= _FAILURES_TO_SAY
        trouble = ("The cluster does not answer: what you see is its last known state.",)
        return (*(trouble if lost else ()), *self.hidden)

    def job(self, key: Key) -> Job | None:
        """Return a job; None if it does not exist or this user may not see it."""
        return self.jobs.store.get(key)

    def samples(self, key: Key) -> tuple[Sample, ...]:
        """Return the history of a job since this process began."""
        return self._samples.get(_text(key), ())

    def changes(self, key: Key) -> tuple[int, int]:
        """Return the numbers of the last change of a job, and of the last of the pools."""
        return self._changed.get(key, 0), self._pool_changes

    def _on_job(self, old: Job | None, new: Job | None) -> None:
        one = new or old
        assert one is not None
        key = Key(one.metadata.namespace, one.metadata.name)
        name = _text(key)
        self._changes += 1
        self._changed[key] = self._changes
        if new is None:
            del self._changed[key]
            self._rows.pop(name, None)
            self._samples.pop(name, None)
        else:
            self._rows[name] = job_row(new)
            sample = sample_of(new, self._cluster.client.clock.now())
            self._samples[name] = with_sample(self._samples.get(name, ()), sample)
        self.bell.ring()

    def _on_pool(self, old: Pool | None, new: Pool | None) -> None:
        one = new or old
        assert one is not None
        self._pool_changes += 1
        self._set(self._pool_rows, one.metadata.name, pool_row(new) if new else None)

    def _on_limit(self, old: Limit | None, new: Limit | None) -> None:
        one = new or old
        assert one is not None
        self._set(self._limit_rows, limit_row(one).key, limit_row(new) if new else None)

    def _set(self, rows: dict[str, Row], key: str, row: Row | None) -> None:
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row
        self.bell.ring()


class JobFollower:
    """One job with its pods and Events, as they are now."""

    def __init__(self, cluster: Cluster, fleet: FleetFollower, key: Key) -> None:
        self.bell = fleet.bell
        self.viewers = 0
        self._changes = 0  # of pods and Events
        self._cluster, self._fleet, self._key = cluster, fleet, key
        self._lives: dict[str, Life] = {}
        self._places = Places(cluster, lambda pod: self._on_pod(None, pod), self._hide)
        self._assignments: tuple[EventObject, ...] = ()
        self._hidden: list[str] = []
        self.pods = Reflector(
            cluster.client,
            Selection(PODS, key.namespace, label_selector=f"{LABEL_JOB}={key.name}"),
            PodObject,
            self._on_pod,
        )
        self._events = Reflector(
            cluster.client,
            Selection(
                EVENTS,
                key.namespace,
                field_selector=f"regarding.kind=TrainingJob,regarding.name={key.name}",
            ),
            EventObject,
            lambda _old, _new: self._ring(),
        )
        self._followed: tuple[tuple[Reflector[Any], str], ...] = (
            (self.pods, "pods"),
            (self._events, "Events"),
        )

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        """Follow while the block lasts; what the user's rights hide is noted."""
        async with AsyncExitStack() as stack:
            for reflector, what in self._followed:
                if await _may_list(self._cluster, reflector.selection):
                    await stack.enter_async_context(running(reflector.run()))
                    await _synced(reflector.synced)
                else:
                    self._hidden.append(f"Your rights do not let you list {what} here.")
            await self._read_assignments()
            await stack.enter_async_context(running(self._find_places()))
            yield

    @property
    def version(self) -> Version:
        """Return a value that differs after each change of this job, or of what its page shows."""
        return (*self._fleet.changes(self._key), self._changes, self._fleet.notes)

    def view(self) -> JobView | None:
        """Return the page of the job; None if the job is gone."""
        job = self._fleet.job(self._key)
        if job is None:
            return None
        events = [one for one in self._events.store if one.regarding.uid == job.metadata.uid]
        seen = Seen(
            job=job,
            pods=tuple(self.pods.store),
            pools=tuple(self._fleet.pools.store),
            events=sorted(
                events, key=lambda one: one.event_time or one.deprecated_last_timestamp or ""
            ),
            assignments=self._assignments,
            places=self._places.known,
            lives=self._lives,
            samples=self._fleet.samples(self._key),
            hidden=self._hidden,
        )
        return job_view(seen, self._cluster.client.clock.now())

    def _on_pod(self, old: PodObject | None, new: PodObject | None) -> None:
        if new is not None:
            self._lives[new.metadata.name] = life_of(new, self._places.of(new))
        elif old is not None:
            life = self._lives[old.metadata.name]
            self._lives[old.metadata.name] = ended(life, self._cluster.client.clock.now())
        self._ring()

    def _ring(self) -> None:
        self._changes += 1
        self.bell.ring()

    async def _read_assignments(self) -> None:
        chosen = Selection(
            EVENTS, self._key.namespace, field_selector="regarding.kind=Pod,reason=Scheduled"
        )
        try:
            found = await self._cluster.client.list_all(chosen, EventObject)
        except KubeError:  # when workers that are gone began stays unknown
            return
        self._assignments = found.items

    async def _find_places(self) -> None:
        async with self.bell.heard() as news:
            await self._places.follow(self.pods.store, news)

    def _hide(self, what: str) -> None:
        self._hidden.append(what)
        self._ring()


@asynccontextmanager
async def following(cluster: Cluster, *, is_one_namespace: bool) -> AsyncIterator[FleetFollower]:
    """Follow all jobs that the user may see: everywhere, or else in the context's namespace."""
    hidden: list[str] = []
    scope = cluster.namespace if is_one_namespace else None
    if scope is None and not await _may_list(cluster, Selection(TRAINING_JOBS)):
        scope = cluster.namespace
        hidden.append(f"Your rights let you see the jobs of namespace {scope}, and of no other.")
        await cluster.client.newest_version(Selection(TRAINING_JOBS, scope))  # raises if denied
    has_pools = await _may_list(cluster, Selection(CAPACITY_POOLS))
    if not has_pools:
        hidden.append("Your rights do not let you list CapacityPools: prices of pools are missing.")
    has_limits = await _may_list(cluster, Selection(SPEND_LIMITS, scope))
    if not has_limits:
        hidden.append("Your rights do not let you list SpendLimits, so none is shown.")
    fleet = FleetFollower(cluster, scope, tuple(hidden))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(fleet.jobs.run()))
        if has_pools:
            await stack.enter_async_context(running(fleet.pools.run()))
            await _synced(fleet.pools.synced)
        if has_limits:
            await stack.enter_async_context(running(fleet.limits.run()))
            await _synced(fleet.limits.synced)
        await _synced(fleet.jobs.synced)
        yield fleet


async def _may_list(cluster: Cluster, chosen: Selection) -> bool:
    try:
        await cluster.client.newest_version(chosen)
    except (Forbidden, NotFound):
        return False
    return True


async def _synced(synced: asyncio.Event) -> None:
    """Wait for the first list, for a while: the page says what is missing."""
    with suppress(TimeoutError):
        await asyncio.wait_for(synced.wait(), _SYNC_SECONDS)


def _text(key: Key) -> str:
    return f"{key.namespace}/{key.name}"
