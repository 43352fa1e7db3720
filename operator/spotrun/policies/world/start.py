"""Start: the first world of a job, or the next one after a time in which no worker trained."""

from dataclasses import replace

from spotrun.api.status import Entry
from spotrun.policies.failures.policy import waits_for_retry
from spotrun.policies.world.join_timeout import just_left_out
from spotrun.state.job_state import JobState
from spotrun.state.replicas import holds_all, together, whole
from spotrun.state.sizes import smallest
from spotrun.state.view import View
from spotrun.state.world_members import all_outlive_a_break, some_unheard, state_holders
from spotrun.state.world_transitions import publish

GATHER_SECONDS = 30.0
"""A job whose smallest world is ready waits this long for the rest of its gang."""


def start(view: View, status: JobState) -> JobState:
    """Start once all are ready, or once the smallest world has waited long enough for the rest.

    If the last world became too small, its survivors keep its state: they continue as soon as there
    are enough workers, and the rest joins later.
    """
    status = _forget_lost_holders(view, status)
    holders = state_holders(view, status)
    if waits_for_retry(view, status) or some_unheard(view, holders):
        return status
    survivors = [
        w for w in holders if w.worker_id in view.staying_worker_ids and w.agent is not None
    ]
    workers = view.job.effective_workers
    goes_on = holds_all(survivors, workers) and all_outlive_a_break(survivors)
    known = {worker.worker_id for worker in survivors} if goes_on else set()
    passed = known | just_left_out(view, status)
    ready = together([w for w in view.staying if w.is_ready and w.worker_id not in passed], workers)
    next_members = [*survivors, *ready] if goes_on else ready
    chosen = whole(view, next_members)
    if not chosen:
        return status
    if goes_on:
        new = sum(worker.worker_id not in known for worker in chosen)
        why = f"{len(chosen) - new} workers have the training state, {new} others join them"
        return publish(view, status, chosen, Entry.ABORT, why, is_active=True)
    everybody = len(chosen) >= view.limited_size
    if not everybody and _gathers_seconds(view) > 0:
        return status
    why = "all workers are ready" if everybody else "the other workers were not ready in time"
    return publish(view, status, chosen, Entry.RESTART, why, is_active=True)


def _forget_lost_holders(view: View, status: JobState) -> JobState:
    """Forget state holders that are gone: one that is created again holds no state."""
    world = status.world
    if world.holder_set <= view.alive_worker_ids:
        return status
    alive = tuple(n for n in world.state_holders if n in view.alive_worker_ids)
    return replace(status, world=replace(world, state_holders=alive))


def start_wake_after_seconds(view: View) -> float | None:
    """Return when the gather window ends; None while too few are ready for one."""
    ready = sum(worker.is_ready for worker in view.staying)
    return _gathers_seconds(view) if ready >= smallest(view.job.effective_workers) else None


def _gathers_seconds(view: View) -> float:
    """Return the rest of the window, which began when the smallest world was ready."""
    ages = [w.agent.ready_seconds or 0.0 for w in view.staying if w.agent and w.is_ready]
    ages.sort(reverse=True)
    return GATHER_SECONDS - ages[smallest(view.job.effective_workers) - 1]
