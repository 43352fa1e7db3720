"""The executor of decisions: it stores the status first, conditionally, and then acts.

Actions follow only if the status is stored. So if an operator dies, its successor finds in the
status what it had begun; and two operators cannot both act on one version of a job.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain

from spotrun.act import workloads
from spotrun.act.errors import Trouble, is_terminating, on_removal, on_write
from spotrun.act.events import event, may_announce
from spotrun.act.jobs.annotations import annotate
from spotrun.act.jobs.report import keep_report
from spotrun.act.jobs.scale import resize
from spotrun.act.jobs.status import StatusWriter, status_of
from spotrun.act.manifests.worker_settings import Settings
from spotrun.act.pods.rollout import Creations, creation_of
from spotrun.act.pods.withdrawal import withdraw
from spotrun.act.pods.writer import PodWriter
from spotrun.act.protection import BUDGET, Protection
from spotrun.act.write_retries import Retries
from spotrun.act.writes import AT_ONCE, Writes, Written
from spotrun.api.names import FINALIZER_METERED, Reason
from spotrun.kube.backoff import Roll
from spotrun.kube.errors import KubeError, NotFound
from spotrun.kube.read_your_writes import Horizon
from spotrun.kube.resource import Key, Resource
from spotrun.kube.rest.client import Client
from spotrun.observe.jobs.leader_memory import Memory
from spotrun.observe.jobs.orphans import Orphan
from spotrun.observe.kube_objects import PODS, TRAINING_JOBS
from spotrun.policies.report.cost_announcements import cost_of_deleted
from spotrun.policies.report.events import announcements
from spotrun.state.actions import (
    Annotate,
    Announce,
    Create,
    Decision,
    DeleteJob,
    KeepReport,
    PriceWorker,
    QueueAction,
    Release,
    Remove,
    Resize,
    Withdraw,
)
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import JobSnapshot

log = logging.getLogger(__name__)

EVENTS = Resource("events.k8s.io", "v1", "events")

_PATIENCE = 3  # failures in a row

OfTheJob = Annotate | KeepReport | DeleteJob | Resize
Single = Remove | Withdraw | Release | PriceWorker | OfTheJob | QueueAction
"""The actions that take one request."""

Stored = Callable[[JobSnapshot, JobState, str], None]
"""Called with (job, status, version) once a status is stored: only now may agents get it."""


@dataclass(frozen=True)
class Outcome:
    """The result of carrying out a decision."""

    stored: bool  # the status is stored, so the decision's own wake-up time counts as well
    wake_after_seconds: float = float("inf")  # decide again then
    failure: KubeError | None = None  # not caused by the job: try again after a pause


@dataclass(frozen=True)
class HiddenLookup:
    """The result of looking for workers that caches should show."""

    is_found: bool  # caches will show some of them
    wake_after_seconds: float  # look for the others again then


class Executor:
    """Carries out decisions about all jobs; for one job, one call at a time."""

    def __init__(
        self,
        client: Client,
        horizon: Horizon[Key, Resource],
        settings: Callable[[], Settings],
        stored: Stored,
        *,
        leads: Callable[[], bool],
        clock: Callable[[], float],
        wall: Callable[[], datetime],
        roll: Roll,
        count_failure: Callable[[KubeError], None] = lambda _: None,
        instance: str = "spotrun",
        at_once: int = AT_ONCE,
    ) -> None:
        self._client = client
        self._writes = Writes(horizon, leads, at_once)
        self._pods = PodWriter(client, self._writes)
        self._retries = Retries(clock, roll, count_failure)
        self._protection = Protection(client, self._writes, self._retries, clock=clock, roll=roll)
        self._creations = Creations(
            self._pods, self._protection, settings, retries=self._retries, clock=clock, roll=roll
        )
        self._statuses = StatusWriter(client, self._writes, self._retries, clock=clock, roll=roll)
        self._stored = stored
        self._clock = clock
        self._wall = wall
        self._instance = instance

    @property
    def writes(self) -> Counter[str]:
        """The number of writes made, by kind; dry runs are included."""
        return self._writes.counts

    async def carry_out(self, job: JobSnapshot, decision: Decision, memory: Memory) -> Outcome:
        """Store the next status, then act on the version of the job that has this status."""
        if unprotected := await self._protection.before_training(job, decision.status, memory):
            return _outcome(unprotected, stored=False)
        version, _ = await asyncio.gather(
            self._statuses.store(job, job.status, decision.status, memory),
            self._protect_early(job, decision, memory),
        )
        if isinstance(version, Trouble):
            troubles = await self._act(job, decision, memory) if _gives_up(job, memory) else []
            return _outcome([version, *troubles], stored=False)
        if job.has_ledger:
            self._stored(job, decision.status, version)
            memory.last = replace(job, status=decision.status, workers=())
        before = memory.refused and memory.refused.refusal
        troubles = await self._act(replace(job, version=version), decision, memory)
        if (memory.refused and memory.refused.refusal) != before:
            troubles.append(Trouble(wake_after_seconds=0.0))  # the status must say so
        if not job.deleting and not any(trouble.is_terminating for trouble in troubles):
            changes = announcements(job.status, decision.status)
            await self._announce(job, (*decision.announcements, *changes), memory)
        return _outcome(troubles, stored=True)

    async def announce_final_cost(self, memory: Memory) -> None:
        """Announce the final cost of a job that was deleted while it cost something."""
        if memory.last is not None:
            await self._announce(memory.last, cost_of_deleted(memory.last, self._wall()), memory)

    async def show(self, job: JobSnapshot, memory: Memory) -> HiddenLookup:
        """Make the caches show the workers that they miss: those of `memory.hidden`.

        A worker id without a pod is remembered in `memory.vanished` while it is in `memory.hidden`.
        """
        memory.vanished &= memory.hidden.keys()
        asked = sorted(memory.hidden.keys() - memory.vanished)
        seen = await asyncio.gather(*(self._show(job, worker_id, memory) for worker_id in asked))
        is_found = any(one.is_found for one in seen)
        return HiddenLookup(
            is_found, min((one.wake_after_seconds for one in seen), default=float("inf"))
        )

    async def let_go_of_hidden(self, last: JobSnapshot, worker_id: int) -> None:
        """Release a worker's pod of a deleted job, if the pod still exists; raises KubeError."""
        pod = await self._pods.find(last, worker_id)
        if pod is not None and FINALIZER_METERED in pod.finalizers:
            key = Key(last.namespace, last.name)
            await self.strip(key, Orphan(pod.name, pod.uid, pod.owner_uid))

    async def strip(self, job: Key, pod: Orphan) -> None:
        """Release this pod, which a deleted job left behind; raises KubeError."""
        try:
            version = await self._pods.strip(job.namespace, pod.name, pod.uid)
        except NotFound:
            return
        self._writes.reached(job, PODS, pod.name, version)

    async def _show(self, job: JobSnapshot, worker_id: int, memory: Memory) -> HiddenLookup:
        async def write() -> list[Trouble | None]:
            try:
                were_changed = await self._pods.show(job, worker_id)
            except KubeError as error:
                return [on_write(error)]
            if were_changed is None:
                memory.vanished |= {worker_id}
            elif were_changed:
                words = f"the operator restored the labels of worker {worker_id}: they were changed"
                await self._announce(job, (Announce(Reason.LABELS_RESTORED, words, True),), memory)
            return [None]

        troubles = await self._retries.attempt(memory, _labels_of(worker_id), write)
        waits = [one.wake_after_seconds for one in troubles if one.wake_after_seconds is not None]
        is_found = not troubles and worker_id not in memory.vanished
        return HiddenLookup(is_found, min(waits, default=float("inf")))

    async def _protect_early(self, job: JobSnapshot, decision: Decision, memory: Memory) -> None:
        """Create what the first workers need, while the status is being stored.

        These objects belong to the job, and do no harm if the status is not stored. If this fails,
        it is tried again, and reported, before the first worker is created.
        """
        if not job.workers and any(isinstance(one, Create) for one in decision.actions):
            await self._protection.before_workers(job, memory)

    async def _act(self, job: JobSnapshot, decision: Decision, memory: Memory) -> list[Trouble]:
        workers: list[Create] = []
        singles: list[Single] = []
        for action in decision.actions:
            if isinstance(action, Create):
                workers.append(action)
            else:
                singles.append(action)
        names = (*map(_name_of, singles), *map(_labels_of, memory.hidden))
        making = (creation_of(job),) if workers else ()
        self._retries.keep(memory, (BUDGET, status_of(job), *making, *names))
        # The inner gather is called here: if it were in a coroutine that is cancelled before its
        # first step, its coroutines would never be awaited.
        created, others = await asyncio.gather(
            self._creations.make(job, workers, memory),
            asyncio.gather(*(self._one(job, action, memory) for action in singles)),
        )
        return [*created, *chain.from_iterable(others)]

    async def _one(self, job: JobSnapshot, action: Single, memory: Memory) -> list[Trouble]:
        async def write() -> list[Trouble | None]:
            return [await self._do(job, action)]

        return await self._retries.attempt(memory, _name_of(action), write)

    async def _do(self, job: JobSnapshot, action: Single) -> Trouble | None:
        match action:
            case Release() | Remove() | PriceWorker():
                return await self._pods.change(job, action)
            case Withdraw():
                return await withdraw(self._client, self._writes, job, action)
            case Annotate() | KeepReport() | DeleteJob() | Resize():
                return await self._do_to_job(job, action)
            case _:
                return await workloads.change(self._client, self._writes, job, action, self._wall())

    async def _do_to_job(self, job: JobSnapshot, action: OfTheJob) -> Trouble | None:
        match action:
            case Annotate():
                return await annotate(self._client, self._writes, job, action)
            case KeepReport():
                return await keep_report(self._client, self._writes, job)
            case DeleteJob():
                return await self._delete(job)
            case Resize():
                return await resize(self._client, self._writes, job, action)

    async def _delete(self, job: JobSnapshot) -> Trouble | None:
        try:
            await self._writes.do(
                "delete_job",
                job.namespace,
                lambda: self._client.delete(
                    TRAINING_JOBS, job.name, uid=job.uid, namespace=job.namespace
                ),
            )
        except KubeError as error:
            return on_removal(error)
        self._statuses.await_newer(job)
        return None

    async def _announce(self, job: JobSnapshot, news: Iterable[Announce], memory: Memory) -> None:
        """Create events; one that cannot be written is not tried again."""
        for one in news:
            if not may_announce(memory.event_times, self._clock()):
                return
            manifest = event(job, one, self._wall(), self._instance)
            try:
                await self._writes.do("event", job.namespace, partial(self._event, job, manifest))
            except KubeError as error:
                if is_terminating(error):
                    return
                log.warning(
                    "%s/%s: an event could not be written: %s", job.namespace, job.name, error
                )

    async def _event(self, job: JobSnapshot, body: dict[str, object]) -> Written:
        return await self._client.create(EVENTS, body, Written, namespace=job.namespace)


def _gives_up(job: JobSnapshot, memory: Memory) -> bool:
    """Whether to release a deleted job whose last cost cannot be stored, though it waits for it."""
    failing = memory.failing.get(status_of(job))
    return job.deleting and failing is not None and failing.times >= _PATIENCE


def _outcome(troubles: list[Trouble], *, stored: bool) -> Outcome:
    waits = [one.wake_after_seconds for one in troubles if one.wake_after_seconds is not None]
    failures = [one.failure for one in troubles if one.failure is not None]
    return Outcome(stored, min(waits, default=float("inf")), failures[0] if failures else None)


def _labels_of(worker_id: int) -> str:
    return f"the labels of worker {worker_id}"


def _name_of(action: Single) -> str:
    """Name an action for the message about its failure."""
    match action:
        case Release(worker_id=worker_id):
            return f"the release of worker {worker_id}"
        case Remove(worker_id=worker_id) | Withdraw(worker_id=worker_id):
            return f"the removal of worker {worker_id}"
        case PriceWorker(worker_id=worker_id):
            return f"the annotation of worker {worker_id} with the price of its loss"
        case Annotate() | KeepReport() | DeleteJob() | Resize():
            return _OF_THE_JOB[type(action)]
        case _:
            return workloads.name_of(action)


_OF_THE_JOB: dict[type[OfTheJob], str] = {
    Annotate: "the annotation of the job with its cost",
    KeepReport: "the ConfigMap with the report",
    DeleteJob: "the deletion of the job",
    Resize: "the change of workers.replicas",
}
