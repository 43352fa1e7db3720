"""Large jobs as lives: hundreds of workers that come late, or fail each time that they join."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from spotrun.api.names import Phase
from spotrun.state.actions import Action, Remove, Withdraw
from spotrun.state.job_state import JobState, World
from spotrun.state.snapshot import Worker
from spotrun.wire import Failure, Progress
from tests.support.jobs.builders import JobBuilder, a_job, a_worker, ago, later


def with_all(job: JobBuilder, workers: Iterable[Worker]) -> JobBuilder:
    """Return the job with these workers and no others; their numbers are given out."""
    known = {worker.worker_id: worker for worker in workers}
    numbers = max(job.status.next_worker_id or 0, max(known, default=-1) + 1)
    return replace(job, workers=known).with_status(next_worker_id=numbers)


def next_status(job: JobBuilder, status: JobState) -> JobBuilder:
    """Return the job with the status that was decided."""
    return replace(job, status=status)


def removed(actions: Iterable[Action]) -> frozenset[int]:
    """The numbers of the workers that have to go."""
    return frozenset(one.worker_id for one in actions if isinstance(one, Remove | Withdraw))


def worlds_until_replaced(workers: int, late: int, most: int = 12) -> int:
    """Count the worlds until all workers that never arrive in one are replaced."""
    broken = set(range(workers - late, workers))
    well = [
        a_worker(n, ready=True, arrived_for=300.0, ready_for=400.0, in_process=False)
        for n in range(workers - late)
    ]
    job = a_job(workers, min=1).with_world(f"0-{workers - 1}", store="10.0.0.1:1")
    job = job.with_status(phase=Phase.RUNNING)
    for _ in range(most):
        world = job.status.world
        if not broken:
            return world.number - 1
        absent = [
            a_worker(n, ready=True, ready_for=400.0, in_process=False) for n in sorted(broken)
        ]
        present = [arrived(worker, world.number) for worker in well]
        long_ago = replace(world, formed_at=ago(700))
        decision = with_all(job.with_status(world=long_ago), [*present, *absent]).decide()
        broken -= removed(decision.actions)
        # The others' replacements stay away: their numbers are not given out.
        kept = {"world": decision.status.world, "restarts": decision.status.restarts}
        job = job.with_status(**kept)
    return most


def arrived(worker: Worker, world_number: int) -> Worker:
    """Return the same worker, which says that it trains in a world."""
    assert worker.agent is not None, "it has called"
    progress = Progress(world_number, 100, step_seconds=0.5)
    report = replace(worker.agent.report, arrived=world_number, progress=progress)
    return replace(worker, agent=replace(worker.agent, report=report))


@dataclass
class FailingJoiningWorkers:
    """Many train, and workers that join them fail each time when they get ready for a world."""

    well: int
    bad: int
    seconds: float = 0.0
    worlds: list[float] = field(default_factory=list)  # when another one was entered
    _failed: dict[int, int] = field(default_factory=dict)

    def live(self, until_seconds: float) -> None:
        """Let time go by."""
        number = self.well + self.bad
        job = a_job(number, min=1).with_status(phase=Phase.RUNNING)
        job = job.with_world(f"0-{self.well - 1}", formed=600, store="10.0.0.1:1")
        while self.seconds < until_seconds:
            world = job.status.world
            job = with_all(job, self._workers(world))
            decision = job.decide(later(self.seconds))
            after = decision.status.world
            if after.is_active and (after.number, True) != (world.number, world.is_active):
                self.worlds.append(self.seconds)
            job = next_status(job, decision.status)
            self.seconds += max(min(decision.wake_after_seconds, 5.0), 0.5)

    def _workers(self, world: World) -> Iterable[Worker]:
        inside = world.member_set
        for n in range(self.well):
            arrived = world.number if world.is_active and n in inside else 1
            progress = Progress(arrived, 100 * arrived + 5, step_seconds=0.5)
            yield a_worker(
                n, ready=True, arrived=arrived, arrived_for=30.0, ready_for=100.0, progress=progress
            )
        for n in range(self.well, self.well + self.bad):
            if n in inside:
                self._failed[n] = world.number
            failure = Failure(self._failed[n], 1, "no device") if n in self._failed else None
            yield a_worker(n, ready=True, ready_for=100.0, failed=failure)
