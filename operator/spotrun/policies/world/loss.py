"""Loss: members are gone, or their processes failed, and the others continue at once.

The next world is formed here, even if rank 0 died. With whose state it continues, the processes
agree among themselves, in the trainer's `elastic/recovery_plan.py`.
"""

from dataclasses import replace

from spotrun.api.names import Reason
from spotrun.api.status import Entry
from spotrun.policies.failures.joining_workers import held_back
from spotrun.policies.failures.policy import waits_for_retry, with_wrong_numbers
from spotrun.state.job_state import JobState
from spotrun.state.replicas import bring_all, holds_all, led_by, together, whole
from spotrun.state.snapshot import Worker
from spotrun.state.view import View, given_up
from spotrun.state.world_members import (
    all_outlive_a_break,
    failed,
    gone,
    is_prepared,
    some_unheard,
    state_holders,
    training,
    world_members,
    world_number,
)
from spotrun.state.world_transitions import publish

DEBOUNCE_SECONDS = 0.3
"""Losses come in groups (an event in recorded markets takes 7-11 of 16): wait for the others."""
DEBOUNCE_IN_PROCESS_SECONDS = 0.05
"""The wait is short here: another world costs the survivors a tenth of a second."""


def after_loss(view: View, status: JobState) -> JobState:
    """Continue with the survivors, and with spares that are warm already."""
    survivors = world_members(view, status)
    if loss_wake_after_seconds(view, status) > 0 or some_unheard(view, survivors):
        return status
    why = f"{len(gone(view, status))} of {len(training(status))} workers are gone"
    return _go_on(view, status, survivors, why)


def after_failure(view: View, status: JobState) -> JobState:
    """Continue without the failed worker, or let all start again after the pause."""
    if some_unheard(view, world_members(view, status)):
        return status
    if (wrong := with_wrong_numbers(view, status)) and status.checkpoint is not None:
        return _from_checkpoint(view, status, wrong[0])
    why = f"a training process of {failed(view, status)[0].pod.name} failed"
    if _goes_on_in_process(view, state_holders(view, status)):
        return _go_on(view, status, world_members(view, status), why)
    if waits_for_retry(view, status):
        return status
    return _go_on(view, status, _without_failed_joining_workers(view, status), why)


def _from_checkpoint(view: View, status: JobState, wrong: Worker) -> JobState:
    """Let the others start again: a wrong device may have had a part in the state that they hold.

    Nobody counts as a holder of the newest state then, so they continue from the checkpoint even if
    they have to wait for a replacement.
    """
    if waits_for_retry(view, status):
        return status
    bad = given_up(status)
    well = [one for one in world_members(view, status) if one.worker_id not in bad]
    spares = _spares(view, status, well, in_process=False)
    why = f"the device of {wrong.pod.name} computes wrong numbers"
    after = _enter(view, status, [*_staying_first(view, well), *spares], Entry.RESTART, why)
    return replace(after, world=replace(after.world, state_holders=()))


def after_hang(view: View, status: JobState) -> JobState:
    """Tell all to break off: a hung worker does not, and is left out; others keep the state.

    If no worker could continue in process, or if this was just tried, all start again after the
    pause.
    """
    members = world_members(view, status)
    if len(members) > 1 and _goes_on_in_process(view, members) and not _hangs_again(view, status):
        why = "no step was finished for long; workers that hang are left out"
        return publish(view, status, members, Entry.ABORT, why, is_active=True)
    if waits_for_retry(view, status):
        return status
    spares = _spares(view, status, members, in_process=False)
    next_members = [*_staying_first(view, members), *spares]
    return _enter(view, status, next_members, Entry.RESTART, "no step was finished for long")


def _hangs_again(view: View, status: JobState) -> bool:
    """Whether the world before this one hung as well, and no hung worker was found."""
    before, now = view.job.status.restarts, status.restarts
    if before.last_reason != Reason.HUNG:
        return False
    is_forgiven = now.failures == 1 and now.counted_since != before.counted_since
    return not is_forgiven and (before.last_world or 0) >= world_number(status) - 1


def loss_wake_after_seconds(view: View, status: JobState) -> float:
    """Return how long to wait for further losses after the first."""
    seen = (view.job.lost_seconds.get(worker_id, 0.0) for worker_id in gone(view, status))
    in_process = _goes_on_in_process(view, state_holders(view, status))
    wait = DEBOUNCE_IN_PROCESS_SECONDS if in_process else DEBOUNCE_SECONDS
    return wait - max(seen, default=0.0)


def _go_on(view: View, status: JobState, survivors: list[Worker], why: str) -> JobState:
    """Form the largest world of the workers there are; state holders come first."""
    holders = [worker for worker in state_holders(view, status) if worker.agent is not None]
    in_process = _goes_on_in_process(view, holders)
    if holders and not holds_all(holders, view.job.effective_workers):
        why += "; a part of the model is lost with them"
    broken = {worker.worker_id for worker in failed(view, status)} if in_process else set()
    kept = {worker.worker_id for worker in holders}
    others = [
        worker
        for worker in survivors
        if worker.worker_id not in kept | broken and is_prepared(worker, in_process=in_process)
    ]
    next_members = (
        [*holders, *others] if in_process else [w for w in survivors if w.agent is not None]
    )
    spares = _spares(view, status, next_members, in_process=in_process)
    workers = view.job.effective_workers
    after = {worker.worker_id for worker in spares} - broken
    spares = [w for w in together([*next_members, *spares], workers) if w.worker_id in after]
    next_members = [*_staying_first(view, next_members), *spares]
    if not in_process:
        return _enter(view, status, next_members, Entry.RESTART, why)
    if not bring_all(holders, whole(view, next_members), workers):
        next_members = led_by(holders, next_members, workers)
    return _enter(view, status, next_members, Entry.ABORT, why)


def _goes_on_in_process(view: View, holders: list[Worker]) -> bool:
    """Whether the state holders have all of the state, and none needs to be started again."""
    return holds_all(holders, view.job.effective_workers) and all_outlive_a_break(holders)


def _without_failed_joining_workers(view: View, status: JobState) -> list[Worker]:
    members, held = world_members(view, status), held_back(view, status)
    well = [worker for worker in members if worker.worker_id not in held]
    return well if whole(view, well) else members


def _enter(
    view: View, status: JobState, next_members: list[Worker], entry: Entry, why: str
) -> JobState:
    """Publish a world of the first of them, as many as are allowed; an empty one if too few."""
    chosen = whole(view, next_members)
    if not chosen:
        why += "; too few workers are left to train"
        return publish(view, status, [], Entry.RESTART, why, is_active=False)
    return publish(view, status, chosen, entry, why, is_active=True)


def _staying_first(view: View, next_members: list[Worker]) -> list[Worker]:
    """Order the workers: those that stay first, and among these the complete replicas."""
    ordered = together(next_members, view.job.effective_workers)
    return sorted(ordered, key=lambda worker: worker.worker_id not in view.staying_worker_ids)


def _spares(
    view: View, status: JobState, next_members: list[Worker], *, in_process: bool
) -> list[Worker]:
    """Return workers outside the world that delay nobody, of the same template as those in it."""
    inside = {worker.worker_id for worker in next_members} | held_back(view, status)
    if not all(view.is_current(worker) for worker in next_members):
        return []
    others = (worker for worker in view.staying if worker.worker_id not in inside)
    return [worker for worker in others if is_prepared(worker, in_process=in_process)]
