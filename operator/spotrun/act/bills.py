"""The only writer of bills: a ConfigMap for each namespace and month, beside the operator.

A bill says what each job has cost since it began, so a repeated write changes nothing. Each write
carries the version of the bill that it was made from. When this replica becomes the leader, it
reads the bills again. Between two writes it needs to remember only what the jobs' statuses say.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NoReturn

import msgspec

from spotrun.act.errors import SOON_SECONDS
from spotrun.act.writes import Writes, Written
from spotrun.api import names
from spotrun.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from spotrun.kube.read_your_writes import Horizon
from spotrun.kube.resource import Key, Meta, Resource
from spotrun.kube.rest.client import Client, Selection
from spotrun.kube.workqueue.queue import WorkQueue
from spotrun.observe.caches import Caches
from spotrun.observe.kube_objects import CONFIG_MAPS, ConfigMapObject
from spotrun.policies.cost.billing.codec import DATA_KEY, bill_name, fitted, read, write
from spotrun.policies.cost.billing.facts import BilledJob, billed
from spotrun.policies.cost.billing.lines import JobFacts, JobLine, Standing, facts_of_vanished
from spotrun.policies.cost.billing.month_bill import Known, MonthBill, changes, with_lines
from spotrun.policies.cost.billing.months import Month, month_of
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.stored.cost import Cost

log = logging.getLogger(__name__)

REFRESH_SECONDS = 300.0
"""The interval at which the bill of running jobs is written. It is long because each write contains
the whole bill, of perhaps hundreds of jobs."""
_END_SECONDS = 3.0
"""Jobs that end or are deleted within this time share one write."""
_RATE_SECONDS = 30.0
"""A job that is deleted while no operator runs is charged at the rate that its bill has."""
_AT_ONCE = 4
_TRIES = 3
"""After this many failed writes of a bill, the pods of deleted jobs do not wait for it any more."""
_UNREADABLE_SECONDS = 60.0
"""The pause after a bill could not be read: a person must fix it."""
_EVERYWHERE = ""
_MAY_GROW = (Standing.OPEN, Standing.CARRIED)


class _BillLabels(msgspec.Struct, frozen=True):
    namespace: str = msgspec.field(default="", name=str(names.LABEL_BILL_NAMESPACE))


class _BillMeta(Meta, frozen=True, rename="camel"):
    labels: _BillLabels = _BillLabels()


class _BillHead(msgspec.Struct, frozen=True):
    """A bill without its content."""

    metadata: _BillMeta


@dataclass
class _Namespace:
    """The part of a namespace that this replica has seen since it became the leader."""

    jobs: dict[str, BilledJob] = field(default_factory=dict)  # by UID
    known: Known | None = None  # what is written; None: not read yet
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class BillWriter:
    """Keeps the bills of all namespaces, while this replica is the leader."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        horizon: Horizon[Key, Resource],
        home: str,
        *,
        leads: Callable[[], bool],
        wall: Callable[[], datetime],
        watch_namespace: str | None = None,
    ) -> None:
        """Keep bills in the namespace `home`, in which the operator runs."""
        self._client = client
        self._caches = caches
        self._writes = Writes(horizon, leads)
        self._home = home
        self._wall = wall
        self._watch_namespace = watch_namespace
        self._queue: WorkQueue[str] = WorkQueue()
        self._queue.close()
        self._namespaces: defaultdict[str, _Namespace] = defaultdict(_Namespace)
        self._failures: Counter[Key] = Counter()

    async def run(self) -> NoReturn:
        """Keep bills for ever, beginning with what is written."""
        self._queue.open()
        self._namespaces.clear()
        self._failures.clear()
        self._queue.add(_EVERYWHERE)
        try:
            await self._queue.run(self._keep, workers=_AT_ONCE)
        finally:
            self._queue.close()

    def note(self, job: JobSnapshot, status: JobState) -> None:
        """Note what a job's stored status says that it has cost."""
        if status.cost.usd is None and status.cost.storage is None:
            return
        jobs = self._namespaces[job.namespace].jobs
        before = jobs.get(job.uid)
        known = before.capacity_of if before is not None else {}
        now = jobs[job.uid] = billed(
            job, status, self._wall(), known, self._caches.pools.cost_labels_of(job.namespace)
        )
        self._queue.add_after(job.namespace, _seconds_to_write(before, now))

    def note_deleted(self, last: JobSnapshot, cost: Cost | None) -> None:
        """Note the cost of a deleted job; without `cost` the cost in its last status counts."""
        jobs = self._namespaces[last.namespace].jobs
        if (before := jobs.get(last.uid)) is None:
            return
        jobs[last.uid] = before.deleted(cost or before.cost, self._wall())
        self._queue.add_after(last.namespace, _END_SECONDS)

    async def close(self, key: Key) -> None:
        """Write the bill of deleted jobs of a name while their pods exist: these say when it was.

        Raises KubeError; after a few failures the pods do not wait any more.
        """
        try:
            for _ in range(_TRIES):  # another writer may change the bill at the same time
                if not self._may_be_open(key):
                    break
                await self._keep(key.namespace)
        except KubeError as error:
            self._failures[key] += 1
            if self._failures[key] < _TRIES:
                raise
            log.warning("%s/%s: the bill lacks the job's last minutes: %s", *key, error)
        self._failures.pop(key, None)

    def _may_be_open(self, key: Key) -> bool:
        known = self._namespaces[key.namespace].known
        uid = self._caches.jobs.uid_of(key)
        return known is None or any(
            line.name == key.name and line.uid != uid and line.standing in _MAY_GROW
            for line in known.lines.values()
        )

    async def _keep(self, namespace: str) -> float | None:
        """Bring a namespace's bills up to date; returns when to look again. Raises KubeError."""
        if namespace == _EVERYWHERE:
            await self._find_namespaces()
            return None
        seen = self._namespaces[namespace]
        async with seen.lock:
            try:
                return await self._bring_up_to_date(namespace, seen)
            except (Conflict, AlreadyExists, NotFound) as error:
                log.debug("the bill of namespace %s has changed meanwhile: %s", namespace, error)
                seen.known = None
                return SOON_SECONDS
            except ValueError as error:
                log.warning("a bill of namespace %s cannot be written: %s", namespace, error)
                seen.known = None
                return _UNREADABLE_SECONDS
            except BaseException:
                seen.known = None  # it is unknown whether the bill was written
                raise

    async def _bring_up_to_date(self, namespace: str, seen: _Namespace) -> float | None:
        if seen.known is None:
            seen.known = await self._read_all(namespace)
        jobs = dict(seen.jobs)
        live = {uid for uid, job in jobs.items() if job.standing is not Standing.GONE}
        live |= self._present(namespace)
        facts = [job.facts for job in jobs.values()]
        facts += self._vanished(namespace, seen.known, live | jobs.keys())
        for month, lines in changes(seen.known, facts).items():
            seen.known = seen.known.after(await self._write(namespace, month, lines, live))
        for uid, job in jobs.items():
            if job.standing is Standing.GONE and seen.jobs.get(uid) is job:
                del seen.jobs[uid]
        seen.known = seen.known.only(live, month_of(self._wall()))
        return REFRESH_SECONDS if any(job.cost.usd_per_hour for job in jobs.values()) else None

    def _vanished(self, namespace: str, known: Known, seen: set[str]) -> Iterator[JobFacts]:
        """Yield the jobs that were deleted while this replica was not the leader."""
        for line in known.lines.values():
            if line.standing in _MAY_GROW and line.uid not in seen:
                deleted_at = self._deleted_at(Key(namespace, line.name), line.uid)
                log.info(
                    "%s/%s was deleted while this replica was not the leader: its bill is closed",
                    namespace,
                    line.name,
                )
                yield facts_of_vanished(line, deleted_at)

    def _deleted_at(self, key: Key, uid: str) -> datetime | None:
        """Return when the job's pods were deleted: their deletionTimestamp minus the grace."""
        times: list[datetime] = []
        for pod in self._caches.jobs.pods_of(key):
            meta = pod.metadata
            if meta.owner_uid == uid and meta.deletion_timestamp is not None:
                grace = timedelta(seconds=meta.deletion_grace_period_seconds or 0)
                times.append(datetime.fromisoformat(meta.deletion_timestamp) - grace)
        return min(times, default=None)

    def _present(self, namespace: str) -> set[str]:
        return {job.metadata.uid for job in self._caches.jobs.in_namespace(namespace)}

    async def _find_namespaces(self) -> None:
        """Queue the namespaces that have bills: their jobs may be gone."""
        selection = Selection(CONFIG_MAPS, self._home, str(names.LABEL_BILL_NAMESPACE))
        found = await self._client.list_all(selection, _BillHead)
        for namespace in {one.metadata.labels.namespace for one in found.items}:
            if self._watch_namespace in {None, namespace}:
                self._queue.add(namespace)

    async def _read_all(self, namespace: str) -> Known:
        selector = f"{names.LABEL_BILL_NAMESPACE}={namespace}"
        found = await self._client.list_all(
            Selection(CONFIG_MAPS, self._home, selector), ConfigMapObject
        )
        known = Known()
        for one in sorted(found.items, key=lambda one: one.metadata.name):
            known = known.after(_read(one))
        return known

    async def _write(
        self, namespace: str, month: Month, lines: list[JobLine], live: set[str]
    ) -> MonthBill:
        name = bill_name(namespace, month)
        try:
            found = await self._client.get(CONFIG_MAPS, name, ConfigMapObject, namespace=self._home)
        except NotFound:
            bill = fitted(with_lines(MonthBill(namespace, month), lines), live)
            body = _manifest(name, bill)
            await self._writes.do("create_bill", self._home, lambda: self._create(body))
            return bill
        bill = fitted(with_lines(_read(found), lines), live)
        version = found.metadata.resource_version
        patch: list[dict[str, object]] = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/data", "value": {DATA_KEY: write(bill)}},
        ]
        await self._writes.do("bill", self._home, lambda: self._patch(name, patch))
        return bill

    async def _create(self, body: dict[str, Any]) -> Written:
        return await self._client.create(CONFIG_MAPS, body, Written, namespace=self._home)

    async def _patch(self, name: str, patch: list[dict[str, object]]) -> Written:
        return await self._client.patch(CONFIG_MAPS, name, patch, Written, namespace=self._home)


def _seconds_to_write(before: BilledJob | None, now: BilledJob) -> float:
    if before is None or before.standing is not now.standing:
        return _END_SECONDS
    has_same_rate = before.cost.usd_per_hour == now.cost.usd_per_hour
    return REFRESH_SECONDS if has_same_rate else _RATE_SECONDS


def _read(found: ConfigMapObject) -> MonthBill:
    name = found.metadata.name
    try:
        return read(found.data.get(DATA_KEY, ""))
    except ValueError as error:
        raise ValueError(
            f"ConfigMap {name} cannot be read as a bill ({error}): fix {DATA_KEY} in it, or "
            "delete the ConfigMap, and the operator creates it again from the jobs that exist"
        ) from error


def _manifest(name: str, bill: MonthBill) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "labels": {
                str(names.LABEL_MANAGED_BY): str(names.MANAGED_BY),
                str(names.LABEL_BILL_NAMESPACE): bill.namespace,
                str(names.LABEL_BILL_MONTH): bill.month,
            },
        },
        "data": {DATA_KEY: write(bill)},
    }
