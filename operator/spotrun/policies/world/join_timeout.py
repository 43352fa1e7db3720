"""Arrival: if the members of a world do not all arrive, another world follows that can form.

Boundary is escalated to Abort, Abort to Restart. A worker that is late once others have arrived is
left out. If the others hold the newest state but are too few without it, they wait with that state.
"""

from collections.abc import Sequence
from datetime import timedelta

from spotrun.api.status import Entry
from spotrun.state.job_state import JobState, World
from spotrun.state.replicas import bring_all, holds_all, whole
from spotrun.state.snapshot import Worker
from spotrun.state.view import View, left_out
from spotrun.state.world_members import (
    all_outlive_a_break,
    has_arrived,
    is_prepared,
    missing,
    some_unheard,
    state_holders,
    training,
    world_members,
)
from spotrun.state.world_transitions import publish

LATE_SECONDS = 2.0
"""Members in process all leave a step together, so they arrive within a step of each other."""
RESTART_LATE_SECONDS = 120.0
"""Processes that start again import modules and build their model; some take much longer.

Those of a script that is told to end first may also save during its pod's grace period."""
LET_GO_SECONDS = 2.0
"""A worker that was left out reports within this time that its process still holds the world
before."""
NOBODY_SECONDS = {Entry.BOUNDARY: 30.0, Entry.ABORT: 30.0, Entry.RESTART: 600.0}
"""The time in which no worker has to arrive; a boundary comes only after the step, whose time is
added."""
_ALLOWED_STEPS = {Entry.BOUNDARY: 3.0, Entry.ABORT: 1.0}
"""Joining workers arrive at once, the others after their step, or after a microbatch of it."""

_STRONGER = {
    Entry.BOUNDARY: Entry.ABORT,
    Entry.ABORT: Entry.RESTART,
    Entry.RESTART: Entry.RESTART,
}


def is_overdue(view: View, status: JobState) -> bool:
    """Whether the operator has waited long enough for the workers that have not arrived."""
    seconds = arrival_wake_after_seconds(view, status)
    return seconds is not None and seconds <= 0


def arrival_wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return how long to wait for members; None if all are there, or if this is unknown."""
    world, absent = status.world, missing(view, status)
    if not absent or some_unheard(view, absent):
        return None
    formed_seconds = _formed_seconds(view, world)
    present = [w for w in world_members(view, status) if has_arrived(w, world.number)]
    starts = any(map(_is_starting, absent))
    entry = Entry.RESTART if starts and not _can_go_on(view, status, present) else world.entry
    if not present:
        return NOBODY_SECONDS[entry] + _step_allowance(view, status) - formed_seconds
    reported = (w.agent.arrived_seconds for w in present if w.agent is not None)
    ages = [age for age in reported if age is not None]
    saves_seconds = view.job.grace_seconds if world.is_planned else 0.0
    if not ages:
        return RESTART_LATE_SECONDS + saves_seconds - formed_seconds
    if entry is Entry.RESTART:
        return RESTART_LATE_SECONDS + saves_seconds - max(ages)
    # Processes that start at the same time do not leave a step together: the last arrival counts.
    return LATE_SECONDS + _step_allowance(view, status) - (min(ages) if starts else max(ages))


def leave_out_the_late(view: View, status: JobState) -> JobState:
    """Try again without the late; with a stronger entry if too few are left or none came."""
    world, absent = status.world, missing(view, status)
    everybody = world_members(view, status)
    late = {worker.worker_id for worker in absent}
    present = [worker for worker in everybody if worker.worker_id not in late]
    entry = Entry.RESTART if world.entry is Entry.RESTART else Entry.ABORT
    why = f"{len(late)} of {len(everybody)} workers did not arrive by {world.entry}"
    on_time = whole(view, present)
    if on_time and _can_enter(view, status, on_time, entry):
        return publish(view, status, on_time, entry, why, is_active=True, late=absent)
    if entry is Entry.ABORT and _can_wait(view, status, present):
        why += "; too few workers are left to train, and they keep the state"
        return publish(view, status, [], Entry.RESTART, why, is_active=False, late=absent)
    # If none came in process, no worker is blamed; one that does not arrive by a restart is broken.
    blamed = absent if present or world.entry is Entry.RESTART else []
    late_before = frozenset(world.late_workers)
    doomed = {worker.worker_id for worker in blamed if worker.worker_id in late_before}
    next_members = [worker for worker in everybody if worker.worker_id not in doomed]
    harder = _STRONGER[world.entry]
    chosen = _with_spares(view, status, next_members, in_process=harder is not Entry.RESTART)
    entry = harder if _can_enter(view, status, chosen, harder) else Entry.RESTART
    if not chosen and world.entry is not Entry.RESTART:  # one that is late once is kept
        blamed = [worker for worker in blamed if worker.worker_id in doomed]
    return publish(view, status, chosen, entry, why, is_active=bool(chosen), late=blamed)


def just_left_out(view: View, status: JobState) -> frozenset[int]:
    """Return the workers left out a moment ago: earlier reports do not show where they are."""
    return left_out(status) if let_go_wake_after_seconds(view, status) else frozenset()


def let_go_wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return how long to wait until left-out workers report that they left their world."""
    if not left_out(status):
        return None
    return max(LET_GO_SECONDS - _formed_seconds(view, status.world), 0.0) or None


def _can_wait(view: View, status: JobState, present: Sequence[Worker]) -> bool:
    """Whether the arrived workers have all of the newest state, and can keep it and wait."""
    brings_all = bring_all(state_holders(view, status), present, view.job.effective_workers)
    return brings_all and all_outlive_a_break(present)


def _can_go_on(view: View, status: JobState, present: Sequence[Worker]) -> bool:
    """Whether the arrived workers can continue alone: enough of them, with all of the state."""
    on_time = whole(view, present)
    return bool(on_time) and _can_enter(view, status, on_time, Entry.ABORT)


def _with_spares(
    view: View, status: JobState, next_members: list[Worker], *, in_process: bool
) -> list[Worker]:
    """Return the largest world of these and spares; of spares that delay it only if needed."""
    inside = set(training(status))
    spares = [w for w in view.staying if w.is_ready and w.worker_id not in inside]
    if not all(view.is_current(worker) for worker in next_members):  # a world has one template
        spares = []
    prepared = [worker for worker in spares if is_prepared(worker, in_process=in_process)]
    return whole(view, [*next_members, *prepared]) or whole(view, [*next_members, *spares])


def _is_starting(worker: Worker) -> bool:
    """Whether its process cannot arrive at once: it must be started first."""
    return worker.agent is not None and not worker.agent.report.in_process


def _formed_seconds(view: View, world: World) -> float:
    return (view.now - (world.formed_at or view.now)) / timedelta(seconds=1)


def _can_enter(view: View, status: JobState, chosen: Sequence[Worker], entry: Entry) -> bool:
    """Whether these can enter: in process only together with workers that have all of the state."""
    if entry is Entry.RESTART:
        return True
    inside = {worker.worker_id for worker in chosen}
    holders = [worker for worker in state_holders(view, status) if worker.worker_id in inside]
    return holds_all(holders, view.job.effective_workers) and all_outlive_a_break(holders)


def _step_allowance(view: View, status: JobState) -> float:
    steps_allowed = _ALLOWED_STEPS.get(status.world.entry)
    if steps_allowed is None:
        return 0.0
    reports = (w.agent.report for w in world_members(view, status) if w.agent is not None)
    steps = (r.progress.step_seconds for r in reports if r.progress is not None)
    return steps_allowed * max((seconds for seconds in steps if seconds), default=0.0)
