"""The world: which workers train together, and how they enter it.

A world without members means that no worker trains: its number is kept, because numbers only grow,
and so are the holders of the newest state. Until a world is active the members of the last one
train, and the joining workers get warm.
"""

from collections.abc import Callable

from spotrun.api.status import Entry
from spotrun.policies.failures.hang import hang_wake_after_seconds, is_hung
from spotrun.policies.policy import Conclude, Policy
from spotrun.policies.world.broken_group import has_lost_touch, meet_anew
from spotrun.policies.world.join_timeout import (
    arrival_wake_after_seconds,
    is_overdue,
    leave_out_the_late,
    let_go_wake_after_seconds,
)
from spotrun.policies.world.loss import (
    after_failure,
    after_hang,
    after_loss,
    loss_wake_after_seconds,
)
from spotrun.policies.world.resize import (
    growth_wake_after_seconds,
    joining_workers_wake_after_seconds,
    leave_wake_after_seconds,
    resize,
    save_wake_after_seconds,
)
from spotrun.policies.world.stage_change import enter_stage, is_due
from spotrun.policies.world.start import start, start_wake_after_seconds
from spotrun.state.job_state import JobState
from spotrun.state.view import View, holds_back
from spotrun.state.worker_outcomes import FOUND_LEADER_SECONDS, NEW_LEADER_SECONDS
from spotrun.state.world_members import counted_on, failed, gone, relied_on, some_unheard, training
from spotrun.state.world_transitions import publish

__all__ = ["counted_on", "is_restart", "next_world", "training", "wake_after_seconds"]


def next_world(view: View, status: JobState) -> JobState:
    """Form, shrink, grow or keep the world; restart one only when it is this job's turn."""
    after = _next(view, status)
    if view.job.restart_seconds > 0 and is_restart(status, after):
        return status
    return after


def is_restart(before: JobState, after: JobState) -> bool:
    """Whether processes that train are started again.

    When a file system or a switch fails, a thousand worlds would restart in the same second, and
    load their checkpoints from the same place.
    """
    old, new = before.world, after.world
    if not new.is_active or new.entry is not Entry.RESTART or not training(before):
        return False
    return not old.is_active or old.number < new.number


def _next(view: View, status: JobState) -> JobState:
    if holds_back(status):
        return _disband(view, status)
    if is_due(view, status):
        return enter_stage(view, status)
    if not training(status):
        return start(view, status)
    for has_happened, answer in _TROUBLES:
        if has_happened(view, status):
            return answer(view, status)
    return resize(view, status)


_TROUBLES: tuple[tuple[Callable[[View, JobState], object], Conclude], ...] = (
    (gone, after_loss),
    (failed, after_failure),
    (is_overdue, leave_out_the_late),
    (has_lost_touch, meet_anew),
    (is_hung, after_hang),
)
"""The problems of a world; only the first one is handled, because it may explain the others."""


def wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when the world may change without any event."""
    if holds_back(status):
        return None
    waits: list[float | None] = [
        leave_wake_after_seconds(view, status),
        let_go_wake_after_seconds(view, status),
        view.job.restart_seconds,
    ]
    if some_unheard(view, view.alive):
        led_seconds = view.job.leading_seconds
        waits += [FOUND_LEADER_SECONDS - led_seconds, NEW_LEADER_SECONDS - led_seconds]
    if not training(status):
        waits.append(start_wake_after_seconds(view))
    elif gone(view, status):
        waits.append(loss_wake_after_seconds(view, status))
    else:
        waits += [
            arrival_wake_after_seconds(view, status),
            growth_wake_after_seconds(view, status),
            save_wake_after_seconds(view, status),
            joining_workers_wake_after_seconds(view, status),
            hang_wake_after_seconds(view, status),
        ]
    return min((wait for wait in waits if wait is not None and wait > 0), default=None)


def _disband(view: View, status: JobState) -> JobState:
    """End the world of a suspended job once its workers are gone; until then it follows orders."""
    world = status.world
    if not relied_on(status).isdisjoint(view.alive_worker_ids):
        return status
    if not world.members and not world.state_holders:
        return status
    why = "no workers are wanted"
    return publish(view, status, [], Entry.RESTART, why, is_active=False, is_planned=True)


WORLD = Policy(next_world, wake_after_seconds=wake_after_seconds)
