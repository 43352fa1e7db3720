"""A job that trains while joining workers come, some to bad nodes: what is decided is done at once.

Only processes are played, as their agents tell of them, in whole seconds; those are left out in
which nothing happens.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import timedelta

from spotrun.state.actions import Action, Create, Remove
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import PodEnd, PodPhase, Worker
from spotrun.state.world_members import training, world_number
from spotrun.wire import Failure, Progress
from tests.support.jobs.builders import NOW, JobBuilder, a_worker

WARM_SECONDS = 20
BOOM = "CUDA error: device unavailable"


@dataclass
class Process:
    """A worker's process: started for a world, and waiting for one where it has failed."""

    node: str
    entered: int = 0
    since: int = 0
    failed: Failure | None = None
    has_ended: bool = False  # and its pod with it
    ready_since: int = 0

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self.entered > 0 and self.failed is None


def _news(status: JobState) -> tuple[object, ...]:
    """Return the fields whose change may lead to another decision at once."""
    return (status.world, status.restarts, status.next_worker_id, status.settled)


@dataclass
class Joining:
    """A job that workers join: the first ones are well, others are if their nodes are."""

    job: JobBuilder
    crash_seconds: int  # after which a process fails
    bad: Collection[str] = ()  # on these nodes
    slow: Collection[int] = ()  # who does not get ready
    in_process: bool = True
    ends_pods: bool = False
    seconds: int = 0
    next_second: int = 1
    num_worlds: int = 0
    processes: dict[int, Process] = field(default_factory=dict)
    joined: dict[int, int] = field(default_factory=dict)  # when each did so first
    crashed: list[int] = field(default_factory=list)  # when
    actions: list[Action] = field(default_factory=list)

    def __post_init__(self) -> None:
        for worker_id, worker in self.job.workers.items():
            entered = 1 if worker_id in training(self.job.status) else 0
            self.processes[worker_id] = Process(worker.pod.node or "", entered)

    def live(self, until: int) -> None:
        """Up to that second."""
        while self.seconds < until:
            self.seconds = min(self.next_second, until)
            for worker_id, process in self.processes.items():
                self._follow(worker_id, process)
            for worker_id, process in self.processes.items():
                self._crash(worker_id, process)
            workers = {n: self._worker(n, process) for n, process in self.processes.items()}
            self.job = replace(self.job, workers=workers)
            self._decide()

    @property
    def removed(self) -> list[int]:
        """The workers that were taken away, in this order."""
        return [one.worker_id for one in self.actions if isinstance(one, Remove)]

    def _decide(self) -> None:
        now = NOW + timedelta(seconds=self.seconds)
        lost = dict.fromkeys(training(self.job.status), 1.0)
        before = self.job.status
        decision = self.job.with_facts(written_seconds=1e6, lost_seconds=lost).decide(now)
        self.num_worlds += decision.status.world != before.world
        self.job = replace(self.job, status=decision.status)
        for worker_id in training(decision.status):
            self.joined.setdefault(worker_id, self.seconds)
        self.actions += decision.actions
        for action in decision.actions:
            if isinstance(action, Create):
                self._make(action.worker_id, action.avoid_nodes)
            elif hasattr(action, "worker_id"):  # removed, or settled
                del self.processes[action.worker_id]
        is_quiet = _news(decision.status) == _news(before) and not decision.actions
        wait = math.ceil(decision.wake_after_seconds) if is_quiet else 1
        ends = (one.since + age for one in self.processes.values() for age in self._clocks)
        self.next_second = min([self.seconds + wait, *(at for at in ends if at > self.seconds)])

    @property
    def _clocks(self) -> tuple[int, int]:
        return self.crash_seconds, WARM_SECONDS

    def _make(self, worker_id: int, avoid_nodes: Collection[str]) -> None:
        taken = {process.node for process in self.processes.values()}
        free = (name for name in map("node-{}".format, range(999)) if name not in taken)
        node = next(name for name in free if name not in avoid_nodes)
        self.processes[worker_id] = Process(node, since=self.seconds, ready_since=self.seconds)

    def _follow(self, worker_id: int, process: Process) -> None:
        """Into the newest world: in process who is up, anew who waits or has to start again."""
        world = self.job.status.world
        if worker_id not in world.member_set or process.has_ended:
            return
        if world.number <= process.entered or not (world.is_active or self.in_process):
            return
        if not (process.is_up and self.in_process):
            process.since, process.failed = self.seconds, None
        elif not world.is_active:
            return
        process.entered = world.number

    def _crash(self, worker_id: int, process: Process) -> None:
        is_late = self.seconds - process.since >= self.crash_seconds
        if not process.is_up or process.node not in self.bad or not is_late:
            return
        self.crashed.append(self.seconds)
        process.has_ended = self.ends_pods
        members = training(self.job.status)
        for peer, other in self.processes.items():
            follows = (
                worker_id in members and peer in members and not self.in_process and other.is_up
            )
            if peer == worker_id or follows:
                text = BOOM if peer == worker_id else "connection reset by peer"
                other.failed = Failure(other.entered, 1, text)
                other.ready_since = self.seconds + (peer != worker_id)

    def _worker(self, worker_id: int, process: Process) -> Worker:
        trains = worker_id in training(self.job.status) and process.is_up
        warm_seconds = 10**6 if worker_id in self.slow else WARM_SECONDS
        warm_at = process.since + warm_seconds
        is_warm = trains or (process.is_up and self.seconds >= warm_at)
        ready_since = process.ready_since if not process.is_up else warm_at
        present = world_number(self.job.status)
        tells = self.in_process and worker_id in training(self.job.status)
        return a_worker(
            worker_id,
            ready=is_warm or not process.is_up,
            arrived=present if trains else 0,
            in_process=is_warm and self.in_process,
            failed=process.failed,
            progress=Progress(present, self.seconds, step_seconds=1.0) if tells else None,
            ready_for=float(self.seconds - ready_since),
            arrived_for=1.0 if trains else None,
            node=process.node,
            phase=PodPhase.FAILED if process.has_ended else PodPhase.RUNNING,
            end=PodEnd(exit_code=1) if process.has_ended else None,
        )
