"""The view of every policy: the snapshot, the time, and the outcome of each worker."""

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, TypeVar

from spotrun.api.names import Phase
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.state.job_state import JobState
from spotrun.state.sizes import SizeLimit, within
from spotrun.state.snapshot import JobSnapshot, Worker
from spotrun.state.worker_outcomes import WorkerOutcome, worker_outcomes

T = TypeVar("T")

FINISHED = frozenset({Phase.SUCCEEDED, Phase.FAILED})
PATIENCE = 2  # a worker that is late this often is replaced
_CLOCKS_APART = timedelta(seconds=10)  # of two replicas whose clocks are synchronised
_AT_ONCE = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class View:
    """One pass over a job; everything in it is derived from the snapshot, once."""

    job: JobSnapshot
    now: datetime
    limits: tuple[SizeLimit, ...] = ()  # on the workers that the user requests in `job.spec`
    unlimited: "View | None" = None  # the same view without its limits, if there are any

    @cached_property
    def is_time_sure(self) -> bool:
        """Whether irreversible decisions may depend on the time.

        Not while clocks disagree, or if the stored cost has a later time than the clock.
        """
        stored = self.job.status.cost.as_of or _AT_ONCE
        return self.job.is_time_sure and self.now + _CLOCKS_APART >= stored

    @cached_property
    def by_worker_id(self) -> dict[int, Worker]:
        """The workers that have a pod."""
        return {worker.worker_id: worker for worker in self.job.workers}

    @cached_property
    def ends(self) -> dict[int, WorkerOutcome]:
        """The ends of the workers that have ended, by worker id."""
        return worker_outcomes(self.job, self.now)

    @cached_property
    def alive(self) -> tuple[Worker, ...]:
        """The workers that have not ended."""
        return tuple(worker for worker in self.job.workers if worker.worker_id not in self.ends)

    @cached_property
    def alive_worker_ids(self) -> frozenset[int]:
        """The ids of the workers that are alive."""
        return frozenset(worker.worker_id for worker in self.alive)

    @cached_property
    def staying(self) -> tuple[Worker, ...]:
        """The alive workers that are current, not under notice and not to be replaced."""
        replaced = given_up(self.job.status)
        return tuple(
            worker
            for worker in self.alive
            if self.is_current(worker)
            and leaves_at(worker) is None
            and worker.worker_id not in replaced
        )

    @cached_property
    def staying_worker_ids(self) -> frozenset[int]:
        """The ids of the workers that stay."""
        return frozenset(worker.worker_id for worker in self.staying)

    @cached_property
    def limited_size(self) -> int:
        """The size of a complete world: the user's size, within all limits."""
        return within(self.job.effective_workers, self.limits)

    @cached_property
    def tightest_limit(self) -> SizeLimit | None:
        """The limit that decides the size, if any: each allows no more than those before."""
        return next((one for one in reversed(self.limits) if one.workers is not None), None)

    @cached_property
    def max_stable_workers(self) -> int | None:
        """The number of workers that may be on demand or reserved; None: any number."""
        given = (limit.stable_workers for limit in self.limits)
        return min((number for number in given if number is not None), default=None)

    def once(self, what: Hashable, parts: tuple[object, ...], make: Callable[[], T]) -> T:
        """Compute once for all policies what depends only on this view and parts of a status.

        The parts are compared by identity only: policies replace what they change.
        """
        known = self._concluded.get(what)
        if known is not None:
            for before, part in zip(known[0], parts, strict=True):
                if before is not part:
                    break
            else:
                return known[1]  # type: ignore[no-any-return]
        made = make()
        self._concluded[what] = (parts, made)
        return made

    @cached_property
    def _concluded(self) -> dict[Hashable, tuple[tuple[object, ...], Any]]:
        return {}

    def once_unlimited(self, what: Hashable, parts: tuple[object, ...], make: Callable[[], T]) -> T:
        """Do the same for a result that does not depend on the limits."""
        return (self.unlimited or self).once(what, parts, make)

    def limited(self, limit: SizeLimit) -> "View":
        """Return a view of the same job with one more limit; facts about its workers are kept."""
        view = View(self.job, self.now, (*self.limits, limit), self.unlimited or self)
        vars(view).update({name: getattr(self, name) for name in _OF_WORKERS})
        return view

    def is_current(self, worker: Worker) -> bool:
        """Whether a worker was made from the template as it is now."""
        return worker.pod.template == self.job.template


_OF_WORKERS = ("by_worker_id", "ends", "alive", "alive_worker_ids", "staying", "staying_worker_ids")


def leaves_at(worker: Worker) -> datetime | None:
    """Return when a worker must be gone: its node has a notice, or its pod is being deleted.

    It must be gone at once if it got a signal to end, from any sender.
    """
    of_node = worker.node.leaves_at if worker.node is not None else None
    of_pod = worker.pod.killed_at if worker.pod.deleting else None
    is_leaving = worker.agent is not None and worker.agent.report.leaving
    moments = (of_node, of_pod, _AT_ONCE if is_leaving else None)
    return min((moment for moment in moments if moment is not None), default=None)


def given_up(status: JobState) -> frozenset[int]:
    """Return the workers that were late so often that they are replaced."""
    times = Counter(status.world.late_workers)
    return frozenset(worker_id for worker_id, count in times.items() if count >= PATIENCE)


def left_out(status: JobState) -> frozenset[int]:
    """Return the workers late for a world and in none since, while others have the state."""
    world = status.world
    if not world.late_workers:
        return frozenset()
    counted = world.holder_set | (world.member_set if world.is_active else frozenset())
    return frozenset(world.late_workers) - counted


def holds_back(status: JobState) -> bool:
    """Whether no workers are wanted: the job is over or suspended."""
    return status.phase in FINISHED or bool(status.suspended_by)


def target_size(view: View, status: JobState) -> int:
    """Return how many workers the job should have: none if it wants none, else within limits."""
    return 0 if holds_back(status) or view.job.deleting else view.limited_size


def cannot_go_on(spec: TrainingJobSpec, status: JobState) -> bool:
    """Whether this pass creates no workers, whatever it finds.

    Any other cause of a suspension may end in this same pass, and then it creates workers.
    """
    return status.phase in FINISHED or spec.suspend
