"""The virtual training: workers enter the world that status names, make steps, and save them.

A world of the job's `workers` does one step per second; a world of another size is faster or
slower in proportion. A change of worlds in the same processes takes no time here; measured, it
takes half a second.
"""

from math import inf

from spotrun.api.status import Entry
from spotrun.simulate.cluster import Cluster, Worker
from spotrun.simulate.scenario import Job, Rules
from spotrun.state.job_state import JobState
from spotrun.state.world_members import training, world_number
from spotrun.wire import Checkpoint, step_of

_HAIR = 1e-6


class Training:
    """The steps of the workers of a cluster, and the state they hold."""

    def __init__(self, job: Job, rules: Rules, cluster: Cluster) -> None:
        self.job = job
        self.lost_steps = 0.0
        self._rules, self._cluster = rules, cluster
        self._members: list[Worker] = []  # the workers that train now
        self._formed = 0  # the newest world that all of its members have entered
        self._reached = 0.0  # the steps in the newest state that any worker had
        self._unsaved_seconds = 0.0
        self._saved_steps = 0.0
        self.saved: Checkpoint | None = None

    @property
    def pace(self) -> float:
        """The steps per second."""
        return len(self._members) / self.job.workers

    @property
    def is_complete(self) -> bool:
        """Whether all steps are done."""
        return self._reached >= self.job.work_seconds - _HAIR

    def trains(self, worker: Worker) -> bool:
        """Whether a worker trains now."""
        return worker in self._members

    def next_event(self) -> float:
        """Return when the next checkpoint or the whole work is complete."""
        if not self._members or self.is_complete:
            return inf
        wait = (self.job.work_seconds - self._reached) / self.pace
        if self._rules.checkpoint_seconds:
            wait = min(wait, self._rules.checkpoint_seconds - self._unsaved_seconds)
        return self._cluster.now + max(wait, _HAIR)

    def advance(self, seconds: float) -> None:
        """Train for this time."""
        if not self._members:
            return
        self._reached = min(self._reached + seconds * self.pace, self.job.work_seconds)
        self._unsaved_seconds += seconds
        for worker in self._members:
            worker.state = self._reached
        is_due = self._unsaved_seconds >= self._rules.checkpoint_seconds - _HAIR
        if is_due or self.is_complete:
            self._save()

    def follow(self, status: JobState) -> None:
        """Follow the status: enter worlds, save, train."""
        now, world = self._cluster.now, status.world
        for worker in self._cluster.workers.values():
            if world.store == f"{address(worker)}:{worker.port}":
                worker.port += 1  # its spare store is used now, so it opens another one
            enters = world.is_active and worker.worker_id in world.member_set
            if enters and worker.is_ready(now) and worker.arrived < world.number:
                worker.arrived, worker.arrived_at = world.number, now
        self._assemble(status)
        asked = status.orders.checkpoint
        if self._members and any(asked > worker.ordered for worker in self._members):
            self._save()
            for worker in self._members:
                worker.ordered = asked

    def _assemble(self, status: JobState) -> None:
        """Let the members of the world train once all are in it and run; else no worker trains."""
        world, present = status.world, world_number(status)
        workers = self._cluster.workers
        members = [workers[worker_id] for worker_id in training(status) if worker_id in workers]
        inside = [w for w in members if w.arrived == present and w.runs(self._cluster.now)]
        if not inside or len(inside) < len(training(status)):
            self._members = []
            return
        if self._formed < present:
            self._formed = present
            self._share_state(inside, world.entry, world.restore, world.holder_set)
        self._members = inside
        for worker in inside:
            worker.state, worker.state_world = self._reached, present

    def _share_state(
        self, members: list[Worker], entry: Entry, restore: str | None, holders: frozenset[int]
    ) -> None:
        """Copy the state from its holders to the others, or restore the checkpoint."""
        if entry is Entry.RESTART:
            steps = self._in(restore)
            self._unsaved_seconds = 0.0
        else:
            kept = [w.state for w in members if w.worker_id in holders and w.state is not None]
            assert kept, "a world in the same processes has a state holder"
            steps = max(kept)
        self.lost_steps += self._reached - steps
        self._reached = steps

    def _in(self, checkpoint: str | None) -> float:
        if checkpoint is None:
            return 0.0
        if self.saved is not None and checkpoint == self.saved.name:
            return self._saved_steps  # its name contains only whole steps
        return float(step_of(checkpoint))

    def _save(self) -> None:
        step = int(self._reached + _HAIR)
        self._saved_steps, self._unsaved_seconds = self._reached, 0.0
        self.saved = Checkpoint(f"step-{step}.g{self._formed}", step)


def address(worker: Worker) -> str:
    """Return the address of a worker's store."""
    number = int(worker.uid.removeprefix("uid-"))
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
