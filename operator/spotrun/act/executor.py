"""Carries decisions out: first the status, conditionally; then, only if it is stored, the actions.

So whatever an operator that died had begun, its successor finds in the status; and two operators
cannot both act on one version of a job.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain
from operator import attrgetter

from spotrun.act.annotations import annotate
from spotrun.act.broken import broken_status
from spotrun.act.creations import Creations, creation_of
from spotrun.act.events import announcements, event, may_tell
from spotrun.act.pods import PodWriter
from spotrun.act.protection import Protection
from spotrun.act.retries import Retries
from spotrun.act.scale import resize
from spotrun.act.settings import Settings
from spotrun.act.statuses import StatusWriter, status_of
from spotrun.act.trouble import Trouble, is_terminating, on_removal
from spotrun.act.withdrawals import withdraw
from spotrun.act.writes import AT_ONCE, Writes, Written
from spotrun.api.status import TrainingJobStatus
from spotrun.decide.actions import (
    Annotate,
    Announce,
    Create,
    Decision,
    DeleteJob,
    Release,
    Remove,
    Resize,
    Withdraw,
)
from spotrun.decide.cost.telling import cost_of_deleted
from spotrun.decide.snapshot import JobSnapshot
from spotrun.kube.backoff import Roll
from spotrun.kube.client import Client
from spotrun.kube.errors import KubeError, NotFound
from spotrun.kube.horizon import Horizon
from spotrun.kube.resource import Key, Resource
from spotrun.observe.memory import Failing, Memory
from spotrun.observe.objects import PODS, TRAINING_JOBS
from spotrun.observe.orphans import Orphan
from spotrun.observe.snapshot import BrokenJob

log = logging.getLogger(__name__)

EVENTS = Resource("events.k8s.io", "v1", "events")

_PROTECTION = "the PodDisruptionBudget"

Single = Remove | Withdraw | Release | Annotate | DeleteJob | Resize
"""What is done by one request."""

Stored = Callable[[JobSnapshot, TrainingJobStatus, str], None]
"""Called with (job, status, version) once a status is in: only now may agents be told of it."""


@dataclass(frozen=True)
class Outcome:
    """What came of carrying a decision out."""

    stored: bool  # the status is in, so the decision's own time to look again counts as well
    again_seconds: float = float("inf")  # look again then
    failure: KubeError | None = None  # not the job's doing: try again after a pause
    failing: Failing | None = None  # the write that has failed most often in a row


class Executor:
    """One for all jobs; for one job one call at a time."""

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
        self._protection = Protection(client, self._writes, clock=clock, roll=roll)
        self._retries = Retries(clock, roll, count_failure)
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
        """How many writes were made, by kind; dry runs among them."""
        return self._writes.counts

    async def carry_out(self, job: JobSnapshot, decision: Decision, memory: Memory) -> Outcome:
        """Store the next status, then do what follows from it, on the version that has it."""
        if unprotected := await self._retries.attempt(
            memory,
            _PROTECTION,
            lambda: self._protection.before_training(job, decision.status, memory),
        ):
            return _outcome(unprotected, memory, stored=False)
        version = await self._statuses.store(job, job.status, decision.status, memory)
        if isinstance(version, Trouble):
            return _outcome([version], memory, stored=False)
        self._stored(job, decision.status, version)
        memory.last = replace(job, status=decision.status, workers=())
        before = memory.refused and memory.refused.refusal
        troubles = await self._act(replace(job, version=version), decision, memory)
        if (memory.refused and memory.refused.refusal) != before:
            troubles.append(Trouble(again_seconds=0.0))  # to say it in the status
        if not job.deleting and not any(trouble.is_terminating for trouble in troubles):
            changes = announcements(job.status, decision.status)
            await self._tell(job, (*decision.announcements, *changes), memory)
        return _outcome(troubles, memory, stored=True)

    async def report(self, broken: BrokenJob, memory: Memory) -> Outcome:
        """Say in its status why a job cannot be decided, if that status can be read."""
        if broken.status is None:
            log.error("%s/%s: %s", broken.namespace, broken.name, broken.message)
            return Outcome(stored=False)
        status = broken_status(broken, self._wall())
        version = await self._statuses.store(broken, broken.status, status, memory)
        if isinstance(version, Trouble):
            return _outcome([version], memory, stored=False)
        return Outcome(stored=True)

    async def say_farewell(self, memory: Memory) -> None:
        """Tell what a job has cost that was deleted while it cost something."""
        if memory.last is not None:
            await self._tell(memory.last, cost_of_deleted(memory.last, self._wall()), memory)

    async def strip(self, job: Key, pod: Orphan) -> None:
        """Let go of a pod of a job that is gone, which had that name; raises KubeError."""
        try:
            version = await self._pods.strip(job.namespace, pod.name, pod.uid)
        except NotFound:
            return
        self._writes.reached(job, PODS, pod.name, version)

    async def _act(self, job: JobSnapshot, decision: Decision, memory: Memory) -> list[Trouble]:
        workers: list[Create] = []
        singles: list[Single] = []
        for action in decision.actions:
            if isinstance(action, Create):
                workers.append(action)
            else:
                singles.append(action)
        names = map(_name_of, singles)
        self._retries.keep(memory, (_PROTECTION, status_of(job), creation_of(job), *names))
        # The inner ones are begun here: a coroutine that is cancelled before its first step would
        # leave them unawaited.
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
            case Release():
                return await self._pods.release(job, action)
            case Remove():
                return await self._pods.remove(job, action)
            case Withdraw():
                return await withdraw(self._client, self._writes, job, action)
            case Annotate():
                return await annotate(self._client, self._writes, job, action)
            case DeleteJob():
                return await self._delete(job)
            case Resize():
                return await resize(self._client, self._writes, job, action)

    async def _delete(self, job: JobSnapshot) -> Trouble | None:
        try:
            await self._writes.do(
                "delete_job",
                lambda: self._client.delete(
                    TRAINING_JOBS, job.name, uid=job.uid, namespace=job.namespace
                ),
            )
        except KubeError as error:
            return on_removal(error)
        self._statuses.await_newer(job)
        return None

    async def _tell(self, job: JobSnapshot, told: Iterable[Announce], memory: Memory) -> None:
        """Tell people; an event that gets lost is not worth a second attempt."""
        for one in told:
            if not may_tell(memory.event_times, self._clock()):
                return
            manifest = event(job, one, self._wall(), self._instance)
            try:
                await self._writes.do("event", partial(self._event, job, manifest))
            except KubeError as error:
                if is_terminating(error):
                    return
                log.warning("%s/%s: no event: %s", job.namespace, job.name, error)

    async def _event(self, job: JobSnapshot, body: dict[str, object]) -> Written:
        return await self._client.create(EVENTS, body, Written, namespace=job.namespace)


def _outcome(troubles: list[Trouble], memory: Memory, *, stored: bool) -> Outcome:
    waits = [one.again_seconds for one in troubles if one.again_seconds is not None]
    failures = [one.failure for one in troubles if one.failure is not None]
    return Outcome(
        stored,
        min(waits, default=float("inf")),
        failures[0] if failures else None,
        max(memory.failing.values(), key=attrgetter("times"), default=None),
    )


def _name_of(action: Single) -> str:
    serial = getattr(action, "serial", "")
    return f"{type(action).__name__} {serial}".rstrip()
