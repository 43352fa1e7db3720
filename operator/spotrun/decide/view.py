"""What every policy looks at: the snapshot, the moment, and what became of each worker."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from spotrun.api.names import Phase
from spotrun.api.status import TrainingJobStatus
from spotrun.decide.fates import Fate, fates
from spotrun.decide.snapshot import JobSnapshot, Worker

FINISHED = frozenset({Phase.SUCCEEDED, Phase.FAILED})


@dataclass(frozen=True)
class View:
    """One look at a job; everything in it is derived from the snapshot, once."""

    job: JobSnapshot
    now: datetime

    @cached_property
    def ends(self) -> dict[int, Fate]:
        """The ends of the workers that have ended, by serial."""
        return fates(self.job)

    @cached_property
    def alive(self) -> tuple[Worker, ...]:
        """The workers that have not ended."""
        return tuple(worker for worker in self.job.workers if worker.serial not in self.ends)

    @cached_property
    def staying(self) -> tuple[Worker, ...]:
        """Those of them that nothing calls away: no notice, and made from today's template."""
        return tuple(
            worker
            for worker in self.alive
            if worker.pod.template == self.job.template
            and (worker.node is None or worker.node.leaves_at is None)
        )

    @cached_property
    def alive_serials(self) -> frozenset[int]:
        """The numbers of those alive."""
        return frozenset(worker.serial for worker in self.alive)


def holds_back(status: TrainingJobStatus) -> bool:
    """Whether no workers are wanted: the job is over, or somebody suspends it."""
    return status.phase in FINISHED or bool(status.suspended_by)
