"""The SpendLimits, their verdicts on jobs, and which jobs ask for one; verdicts are not stored.

A job asks when a decision would give it its first workers: the operator drops that decision, and
decides again once it has examined the namespace as a whole.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError
from typing_extensions import override

from spotrun.api.names import FINALIZER_SPEND
from spotrun.api.spec.spend_limit import SpendLimitSpec
from spotrun.api.status_parts.spend_limit import SpendLimitStatus
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client, Selection
from spotrun.kube.watch.reflector import Reflector
from spotrun.kube.watch.reflector_owner import ReflectorOwner
from spotrun.money.units import UsdPerHour
from spotrun.observe.jobs.caches import JobCaches
from spotrun.observe.jobs.snapshot import cost_labels
from spotrun.observe.kube_objects import SPEND_LIMITS, JobObject, SpendLimitObject
from spotrun.policies.budget.projected_rate import least_worker_rate
from spotrun.policies.budget.spend.codec import read
from spotrun.policies.budget.spend.facts import JobFacts, Limit, facts_of
from spotrun.policies.budget.spend.job_policies import must_ask
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import JobSnapshot, SpendVerdict
from spotrun.state.view import FINISHED, View

log = logging.getLogger(__name__)

ANYTHING = SpendVerdict(is_granted=True)
"""The verdict on a job whose limits only warn."""
NOT_ASKED = SpendVerdict()
"""The verdict on a job that has not asked yet."""


@dataclass
class _Known:
    """Facts about a job besides its object."""

    asks: bool = False
    worker_rate: UsdPerHour | None = None
    verdict: SpendVerdict | None = None


class SpendLimits(ReflectorOwner):
    """The cache of SpendLimits, kept up to date in an `async with` block.

    `look` is called with a namespace that must be examined, and `wake` with jobs whose verdict or
    limits have changed.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str | None,
        jobs: JobCaches,
        wake: Callable[[Key], None],
        look: Callable[[str], None],
        wall: Callable[[], datetime],
    ) -> None:
        self.objects: Reflector[SpendLimitObject] = Reflector(
            client,
            Selection(SPEND_LIMITS, namespace),
            SpendLimitObject,
            self._changed,
            indices={"namespace": lambda one: (one.metadata.namespace,)},
        )
        self._jobs = jobs
        self._wake = wake
        self._look = look
        self._wall = wall
        self._known: dict[str, dict[str, _Known]] = {}  # by namespace and UID
        self._read: dict[str, tuple[SpendLimitObject, Limit | None]] = {}

    @property
    @override
    def reflectors(self) -> dict[str, Reflector[Any]]:
        """The reflector, by its name in the metric of caches' age."""
        return {"spendlimits": self.objects}

    @property
    def known(self) -> list[tuple[str, Limit]]:
        """All SpendLimits, each with its namespace."""
        names = {one.metadata.namespace for one in self.objects.store}
        return [(name, limit) for name in sorted(names) for limit in self.limits_of(name)]

    def namespaces(self) -> set[str]:
        """The namespaces to examine: those that have limits, and those that had some."""
        held = (
            job.metadata.namespace
            for job in self._jobs.objects.store
            if FINALIZER_SPEND in job.metadata.finalizers
        )
        return {one.metadata.namespace for one in self.objects.store} | set(held)

    def limits_of(self, namespace: str) -> list[Limit]:
        """Return the limits of a namespace that can be read, by name."""
        objects = self.objects.by_index("namespace", namespace)
        found = [self._limit(one) for one in objects]
        return sorted((one for one in found if one is not None), key=lambda one: one.name)

    def jobs_of(self, namespace: str) -> list[JobFacts]:
        """Return the jobs of a namespace as limits see them; deleted jobs are forgotten."""
        before, now = self._known.get(namespace, {}), self._wall()
        found: list[JobFacts] = []
        kept: dict[str, _Known] = {}
        for job in self._jobs.in_namespace(namespace):
            known = kept[job.metadata.uid] = before.get(job.metadata.uid, _Known())
            found.append(self._facts(job, known, now))
        self._known[namespace] = kept
        return found

    def verdicts_of(self, namespace: str) -> dict[str, SpendVerdict]:
        """Return the last verdicts, by the UIDs of jobs."""
        known = self._known.get(namespace, {})
        return {uid: one.verdict for uid, one in known.items() if one.verdict is not None}

    def publish(self, namespace: str, verdicts: Mapping[str, SpendVerdict]) -> None:
        """Store the verdicts on the jobs of a namespace, and wake those whose verdict changed."""
        known = self._known.setdefault(namespace, {})
        for job in self._jobs.in_namespace(namespace):
            one = known.setdefault(job.metadata.uid, _Known())
            verdict = verdicts.get(job.metadata.uid)
            if verdict != one.verdict:
                one.verdict = verdict
                self._wake(Key(namespace, job.metadata.name))

    def added_to(self, job: JobSnapshot) -> JobSnapshot:
        """Add the verdict of the limits to a job, and note what one of its workers would cost."""
        limits = self._covering(job)
        if not limits:
            return job
        known = self._known.setdefault(job.namespace, {}).setdefault(job.uid, _Known())
        if job.status.phase not in FINISHED:
            rate = least_worker_rate(View(job, self._wall()))
            if rate != known.worker_rate:
                known.worker_rate = rate
                self._look(job.namespace)
        if not any(limit.is_binding for limit in limits):
            return replace(job, spend=ANYTHING)
        return replace(job, spend=known.verdict or NOT_ASKED)

    def must_ask(self, job: JobSnapshot, status: JobState) -> bool:
        """Whether a decision must wait for a verdict; if so, this call asks for it."""
        if not must_ask(job, status):
            return False
        self._known.setdefault(job.namespace, {}).setdefault(job.uid, _Known()).asks = True
        self._look(job.namespace)
        return True

    def job_changed(self, old: JobObject | None, new: JobObject | None) -> None:
        """Have the namespace examined if a changed job counts there."""
        job = new or old
        if job is None:
            return
        namespace = job.metadata.namespace
        is_held = FINALIZER_SPEND in job.metadata.finalizers
        if is_held or any(True for _ in self.objects.by_index("namespace", namespace)):
            self._look(namespace)

    def forget_all(self) -> None:
        """Forget the verdicts and questions of an earlier term as leader."""
        self._known.clear()

    def _covering(self, job: JobSnapshot) -> list[Limit]:
        limits = self.limits_of(job.namespace)
        return [one for one in limits if one.covers_labels(job.cost_labels)]

    def _facts(self, job: JobObject, known: _Known, now: datetime) -> JobFacts:
        """Return what limits see of a job; one that cannot be read asks for nothing.

        Its spending counts nevertheless, and our finalizer is removed when it is deleted.
        """
        meta, reading = job.metadata, self._jobs.readings.spec(job)
        status = self._jobs.readings.status(job).status
        spec = reading.spec or reading.readable
        assert spec is not None, "a wrong spec has a readable part"
        facts = facts_of(
            spec,
            status or JobState(),
            now,
            name=meta.name,
            uid=meta.uid,
            version=meta.resource_version,
            created_at=datetime.fromisoformat(meta.creation_timestamp),
            is_deleting=meta.deletion_timestamp is not None,
            labels=cost_labels(meta.labels),
            finalizers=meta.finalizers,
        )
        may_ask = not (facts.workers or facts.is_over or facts.is_deleting or spec.suspend)
        known.asks = known.asks and may_ask
        asks = (facts.asks or known.asks) and reading.spec is not None
        is_granted = asks and known.verdict is not None and known.verdict.is_granted
        return replace(facts, asks=asks, is_granted=is_granted, worker_rate=known.worker_rate)

    def _limit(self, found: SpendLimitObject) -> Limit | None:
        uid = found.metadata.uid
        known, limit = self._read.get(uid, (None, None))
        if known is not found:
            limit = _read_limit(found)
            self._read[uid] = (found, limit)
        return limit

    def _changed(self, old: SpendLimitObject | None, new: SpendLimitObject | None) -> None:
        one = new or old
        assert one is not None, "a change has an old or a new side"
        if new is None:
            self._read.pop(one.metadata.uid, None)
        self._look(one.metadata.namespace)
        if old is None or new is None or old.metadata.generation != new.metadata.generation:
            for job in self._jobs.in_namespace(one.metadata.namespace):
                self._wake(Key(job.metadata.namespace, job.metadata.name))


def _read_limit(found: SpendLimitObject) -> Limit | None:
    """Read a limit; None for one that cannot be read, which is logged and limits nothing."""
    meta = found.metadata
    try:
        spec = SpendLimitSpec.model_validate_json(bytes(found.spec), by_alias=True, by_name=False)
        stored = SpendLimitStatus.model_validate_json(
            bytes(found.status), by_alias=True, by_name=False
        )
    except ValidationError as error:
        log.warning(
            "spendlimit %s/%s cannot be read, so it limits nothing: %s",
            meta.namespace,
            meta.name,
            error,
        )
        return None
    return Limit(meta.name, spec, meta.resource_version, meta.generation, read(stored))
