"""The only writer of TuningJobs and of their trials' TrainingJobs.

Only the leader writes, and makes one call at a time for a search. It stores the status first, on
the version that the decision was made on; the actions follow from the stored status, and may be
repeated.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from spotrun.act.errors import SOON_SECONDS, is_terminating, over_quota
from spotrun.act.events import event, may_announce
from spotrun.act.executor import EVENTS
from spotrun.act.manifests.trial_job import trial_job
from spotrun.act.writes import Writes, Written, status_patch
from spotrun.api.names import TUNING_JOB
from spotrun.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, KubeError, NotFound
from spotrun.kube.read_your_writes import Horizon
from spotrun.kube.resource import Key, Resource
from spotrun.kube.rest.client import Client
from spotrun.observe.kube_objects import TRAINING_JOBS, TUNING_JOBS, JobObject
from spotrun.policies.tuning.codec import write
from spotrun.policies.tuning.decide import TuningDecision
from spotrun.policies.tuning.news import TuningNews
from spotrun.policies.tuning.snapshot import TuningSnapshot
from spotrun.policies.tuning.state import TuningState
from spotrun.policies.tuning.steps import CreateTrial, DeleteTrial, Step, SuspendTrial
from spotrun.policies.tuning.write_rate import seconds_to_write
from spotrun.search import Report

log = logging.getLogger(__name__)

_QUOTA_SECONDS = 15.0
"""The pause after a quota's refusal: Kubernetes does not tell when a quota has room again."""
_EVENTS_PER_HOUR = 60
"""A search of twenty trials has an event for each beginning and each end."""


@dataclass
class TuningMemory:
    """The leader's memory of a search; losing it costs time, but makes no decision wrong."""

    uid: str = ""
    unwritten: dict[int, tuple[Report, ...]] = field(default_factory=dict)  # by trial
    written_at: float = float("-inf")
    taken: set[int] = field(default_factory=set)  # trials whose name another owner's job has
    refused: dict[int, str] = field(default_factory=dict)  # by trial: the API server's words
    over_quota: dict[int, str] = field(default_factory=dict)  # by trial: a quota's words
    ask_quota_at: float = float("-inf")
    event_times: deque[float] = field(default_factory=deque)


class TuningWriter:
    """Carries out decisions about searches."""

    def __init__(
        self,
        client: Client,
        horizon: Horizon[Key, Resource],
        *,
        leads: Callable[[], bool],
        clock: Callable[[], float],
        wall: Callable[[], datetime],
        instance: str,
    ) -> None:
        self._client = client
        self._writes = Writes(horizon, leads)
        self._clock = clock
        self._wall = wall
        self._instance = instance

    async def carry_out(
        self, search: TuningSnapshot, decision: TuningDecision, memory: TuningMemory
    ) -> float:
        """Store the status, then act; return when to look again. Raises KubeError."""
        new, old = decision.status, search.status
        wait_seconds = seconds_to_write(old, new, self._clock() - memory.written_at)
        if new != old and wait_seconds > 0:
            return min(wait_seconds, decision.wake_after_seconds)
        if new != old:
            await self._store(search, new, memory)
        waits = [await self._do(search, step, memory) for step in decision.steps]
        for one in decision.news:
            await self._tell(search, one, memory)
        return min([decision.wake_after_seconds, *waits])

    async def exists(self, search: TuningSnapshot, number: int) -> bool:
        """Ask the API server whether a trial has its TrainingJob; the cache may lag behind."""
        try:
            job = await self._client.get(
                TRAINING_JOBS, search.job_name(number), JobObject, namespace=search.namespace
            )
        except NotFound:
            return False
        return job.metadata.owner_uid == search.uid

    async def _store(
        self, search: TuningSnapshot, status: TuningState, memory: TuningMemory
    ) -> None:
        patch = status_patch(search.version, write(status))
        written = await self._writes.do(
            "status",
            search.namespace,
            lambda: self._client.patch(
                TUNING_JOBS,
                search.name,
                patch,
                Written,
                namespace=search.namespace,
                subresource="status",
            ),
        )
        memory.written_at = self._clock()
        key = Key(search.namespace, search.name)
        self._writes.reached(key, TUNING_JOBS, search.name, written.metadata.version)

    async def _do(self, search: TuningSnapshot, step: Step, memory: TuningMemory) -> float:
        """Do one thing; return when to look again for it."""
        try:
            match step:
                case CreateTrial():
                    return await self._create(search, step, memory)
                case SuspendTrial():
                    await self._suspend(search, step)
                case DeleteTrial():
                    await self._delete(search, step)
        except (Conflict, NotFound) as error:
            log.debug("%s of %s/%s: %s", step, search.namespace, search.name, error)
            return SOON_SECONDS  # the job was replaced or deleted: the cache shows that soon
        return float("inf")

    async def _create(
        self, search: TuningSnapshot, step: CreateTrial, memory: TuningMemory
    ) -> float:
        name = search.job_name(step.number)
        if memory.over_quota and (left := memory.ask_quota_at - self._clock()) > 0:
            return left
        try:
            body = trial_job(search, step)
            made = await self._writes.do(
                "create_trial",
                search.namespace,
                lambda: self._client.create(
                    TRAINING_JOBS, body, Written, namespace=search.namespace
                ),
            )
        except AlreadyExists:
            if not await self.exists(search, step.number):
                memory.taken.add(step.number)
            return SOON_SECONDS  # if it is ours, the cache shows it soon
        except ValueError as error:
            memory.refused[step.number] = str(error)
            return 0.0
        except (Forbidden, Invalid) as error:
            return self._note_refusal(error, step.number, memory)
        memory.over_quota.clear()
        log.info("tuningjob %s/%s: created trial %s", search.namespace, search.name, name)
        key = Key(search.namespace, search.name)
        self._writes.reached(key, TRAINING_JOBS, name, made.metadata.version)
        return float("inf")

    def _note_refusal(self, error: KubeError, number: int, memory: TuningMemory) -> float:
        if is_terminating(error):
            return float("inf")
        if (words := over_quota(error)) is not None:
            memory.over_quota[number] = words
            memory.ask_quota_at = self._clock() + _QUOTA_SECONDS
            return SOON_SECONDS  # the status must say so
        memory.refused[number] = error.message
        return 0.0

    async def _suspend(self, search: TuningSnapshot, step: SuspendTrial) -> None:
        name = search.job_name(step.number)
        patch = {"metadata": {"uid": step.uid}, "spec": {"suspend": step.suspend}}
        written = await self._writes.do(
            "suspend_trial",
            search.namespace,
            lambda: self._client.patch(
                TRAINING_JOBS, name, patch, Written, namespace=search.namespace
            ),
        )
        key = Key(search.namespace, search.name)
        self._writes.reached(key, TRAINING_JOBS, name, written.metadata.version)

    async def _delete(self, search: TuningSnapshot, step: DeleteTrial) -> None:
        name = search.job_name(step.number)
        await self._writes.do(
            "delete_trial",
            search.namespace,
            lambda: self._client.delete(
                TRAINING_JOBS, name, uid=step.uid, namespace=search.namespace
            ),
        )

    async def _tell(self, search: TuningSnapshot, news: TuningNews, memory: TuningMemory) -> None:
        """Write an event; one that fails is not written again."""
        if not may_announce(memory.event_times, self._clock(), _EVENTS_PER_HOUR):
            return
        body = event(search, news, self._wall(), self._instance, kind=TUNING_JOB)
        try:
            await self._writes.do(
                "event",
                search.namespace,
                lambda: self._client.create(EVENTS, body, Written, namespace=search.namespace),
            )
        except KubeError as error:
            log.debug("event of tuningjob %s/%s: %s", search.namespace, search.name, error)
