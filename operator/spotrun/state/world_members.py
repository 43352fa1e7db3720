"""Members of a world: which train, are gone, failed or late, and which hold the newest state."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from spotrun.api.status import Entry
from spotrun.state.job_state import JobState
from spotrun.state.replicas import whole
from spotrun.state.snapshot import Worker
from spotrun.state.view import View, given_up
from spotrun.state.worker_outcomes import NEW_LEADER_SECONDS
from spotrun.wire import Progress

TRIAL_SECONDS = 600.0
"""A member that reports no steps counts as newly joined for this long: processes that start again
get the same time."""
CALM_SECONDS = 120.0
"""If a world trained for this long before a link broke, its links work."""


def training(status: JobState) -> tuple[int, ...]:
    """The workers that train now, by rank."""
    world = status.world
    return world.members if world.is_active or not world.members else world.state_holders


def training_set(status: JobState) -> frozenset[int]:
    """The workers that train now, unordered: for the question whether a worker is among them."""
    world = status.world
    return world.member_set if world.is_active or not world.members else world.holder_set


def world_number(status: JobState) -> int:
    """The number of the world that trains now: an older one while the next is prepared."""
    world = status.world
    if world.is_active or world.training_number is None:
        return world.number
    return world.training_number


def world_members(view: View, status: JobState) -> list[Worker]:
    """Return the workers that train and are alive, by rank."""
    return [view.by_worker_id[n] for n in training(status) if n in view.alive_worker_ids]


def reported_progress(view: View, status: JobState) -> list[Progress]:
    """Return the progress that training workers report, without workers that have reported none."""
    reported = (w.agent.report.progress for w in world_members(view, status) if w.agent is not None)
    return [progress for progress in reported if progress is not None]


def last_members(view: View, status: JobState) -> list[Worker]:
    """Return members that train or have ended: a last report may outlive the processes."""
    return [
        view.by_worker_id[worker_id]
        for worker_id in training(status)
        if worker_id in view.by_worker_id
    ]


def last_progress(view: View, status: JobState) -> list[Progress]:
    """Return the progress that the last members report, or last reported."""
    reported = (w.agent.report.progress for w in last_members(view, status) if w.agent is not None)
    return [progress for progress in reported if progress is not None]


def gone(view: View, status: JobState) -> tuple[int, ...]:
    """Return the workers that trained and are no longer alive."""
    return tuple(n for n in training(status) if n not in view.alive_worker_ids)


def failed(view: View, status: JobState) -> list[Worker]:
    """The members whose processes failed in the world that trains, or on their way into it."""
    world, present = status.world, world_number(status)
    in_process = world.is_active and world.entry is not Entry.RESTART
    bringing = world.holder_set if in_process else frozenset()
    return [
        worker
        for worker in world_members(view, status)
        if has_failed_in(worker, present) or (worker.worker_id in bringing and _is_broken(worker))
    ]


def is_breaking_off(view: View, status: JobState) -> bool:
    """Whether training processes are told to end, which also stops the work of their peers.

    This includes the time after a suspension while a pod that it deleted still has its grace.
    """
    return bool(status.suspended_by) or any(w.pod.deleting for w in world_members(view, status))


def state_holders(view: View, status: JobState) -> list[Worker]:
    """The workers that have the newest state; only they may be its source.

    The workers that trained in the last world have it, and so does a joining worker once it reports
    that it trains in this one. A restart leaves nothing in memory: after it, only workers that
    train have the state.
    """
    world = status.world
    present = world_number(status)
    is_restarted = world.is_active and world.entry is Entry.RESTART
    holders = () if is_restarted else world.state_holders
    trained = [n for n in world.members if _trains_in(view, n, present)]
    if trained and world.is_active and view.job.spec.workers.per_replica > 1:
        # A worker that was left out is behind by now, and cannot replace a lost part.
        holders = tuple(n for n in holders if n in world.member_set)
    worker_ids = dict.fromkeys((*holders, *trained))
    alive = (view.by_worker_id[n] for n in worker_ids if n in view.alive_worker_ids)
    return [worker for worker in alive if not _is_broken(worker) and not _is_new(worker)]


def missing(view: View, status: JobState) -> list[Worker]:
    """The members of the present world that have not arrived in it yet."""
    world = status.world
    if not world.is_active:
        return []
    return [
        worker for worker in world_members(view, status) if not has_arrived(worker, world.number)
    ]


def has_arrived(worker: Worker, world_number: int) -> bool:
    """Whether a worker reports that it is in a world."""
    return worker.agent is not None and worker.agent.report.arrived >= world_number


def has_failed_in(worker: Worker, world_number: int) -> bool:
    """Whether a worker reports that its process ended with an error in that world."""
    failure = worker.agent.report.failed if worker.agent is not None else None
    return failure is not None and failure.world_number == world_number


def on_trial(view: View, status: JobState) -> frozenset[int]:
    """Return members that joined this world without a step in it, if the others do without them."""
    world = status.world
    if not world.is_active or not world.joining_workers or world.formed_at is None:
        return frozenset()
    if view.now - world.formed_at > timedelta(seconds=TRIAL_SECONDS):
        return frozenset()
    members = world_members(view, status)
    stepped = {w.worker_id for w in members if has_stepped_in(w, world.number)}
    new = world.joining_set - stepped
    rest = [worker for worker in members if worker.worker_id not in new]
    return new if whole(view, rest) else frozenset()


def has_stepped_in(worker: Worker, world_number: int) -> bool:
    """Whether a worker reports the duration of steps in that world, or in a later one."""
    progress = worker.agent.report.progress if worker.agent is not None else None
    return (
        progress is not None
        and progress.world_number >= world_number
        and progress.step_seconds is not None
    )


def all_in_process(workers: Iterable[Worker]) -> bool:
    """Whether all can continue without a restart."""
    return all(w.agent is not None and w.agent.report.in_process for w in workers)


def all_outlive_a_break(workers: Iterable[Worker]) -> bool:
    """Whether all can continue without a restart although their world has broken."""
    agents = [worker.agent for worker in workers]
    return all(one is not None and one.report.outlives_a_break for one in agents)


def can_be_asked_to_save(view: View, status: JobState) -> bool:
    """Whether a training worker saves when a checkpoint is ordered, as far as is known.

    A script that does not train through `Run` reads no orders, so the operator does not wait for
    it. If a worker has not reported to a new leader yet, the answer is yes.
    """
    members = world_members(view, status)
    agents = [worker.agent for worker in members if worker.agent is not None]
    return some_unheard(view, members) or any(one.report.can_be_asked_to_save for one in agents)


def is_answered(status: JobState, since: datetime) -> bool:
    """Whether the newest checkpoint began after the last order, given at `since` or later.

    A checkpoint that was under way at that time has an older state, but is acknowledged later. If a
    trainer does not report for which orders it saved, the time decides.
    """
    saved, orders = status.checkpoint, status.orders
    if saved is None or saved.time <= since:
        return False
    if saved.orders is None or orders.asked_at is None or orders.asked_at < since:
        return True
    return saved.orders >= orders.checkpoint


def breaks_in_a_row(view: View, status: JobState) -> int:
    """Return how many worlds in a row broke soon after each other, although no worker was lost.

    While the next world is prepared, the time at which the present one formed is unknown.
    """
    world = status.world
    if not world.is_active or world.formed_at is None:
        return world.breaks
    trained_for = view.now - world.formed_at
    return 0 if trained_for >= timedelta(seconds=CALM_SECONDS) else world.breaks


def is_prepared(worker: Worker, *, in_process: bool) -> bool:
    """Whether a joining worker delays no other: it is warm, if the others wait in process."""
    report = worker.agent.report if worker.agent is not None else None
    return report is not None and report.ready and (report.in_process or not in_process)


def some_unheard(view: View, workers: Iterable[Worker]) -> bool:
    """Whether some have not reported to a new leader yet: what they hold is unknown."""
    if view.job.leading_seconds >= NEW_LEADER_SECONDS:
        return False
    return any(worker.agent is None for worker in workers)


def counted_on(status: JobState) -> frozenset[int]:
    """The members of the world, and those with the state until that world is entered.

    A prepared world stays valid while no worker takes the place of one that was given up.
    """
    return relied_on(status) | (status.world.member_set - given_up(status))


def relied_on(status: JobState) -> frozenset[int]:
    """Return the workers that train, or hold the state while none trains: never re-create these."""
    world = status.world
    return world.member_set if world.is_active else world.holder_set


def _is_broken(worker: Worker) -> bool:
    """Whether its process failed after it entered a world: the state that it held is lost."""
    report = worker.agent.report if worker.agent is not None else None
    return (
        report is not None
        and report.failed is not None
        and (report.failed.world_number >= report.arrived)
    )


def _is_new(worker: Worker) -> bool:
    """Whether it was in no world: its pod was created again under the id of a lost one."""
    return worker.agent is not None and not worker.agent.report.arrived


def _trains_in(view: View, worker_id: int, world_number: int) -> bool:
    worker = view.by_worker_id.get(worker_id)
    progress = worker.agent.report.progress if worker and worker.agent else None
    return progress is not None and progress.world_number >= world_number > 0
