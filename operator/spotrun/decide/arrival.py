"""Arrival: a world that does not come together is followed by one that can.

Boundary is escalated to Abort, Abort to Restart. Who is late once others have arrived is left out.
"""

from datetime import timedelta

from spotrun.api.status import How, TrainingJobStatus
from spotrun.decide.crew import has_arrived, members, missing, some_unheard
from spotrun.decide.publish import publish
from spotrun.decide.sizes import largest
from spotrun.decide.snapshot import Worker
from spotrun.decide.view import View

LATE_SECONDS = 2.0
"""In process all leave one step together, so they arrive within milliseconds of each other."""
RESTART_LATE_SECONDS = 120.0
"""Processes that start again import and build; some take much longer than others."""
NOBODY_SECONDS = {How.BOUNDARY: 30.0, How.ABORT: 30.0, How.RESTART: 600.0}
"""So long nobody may arrive; a boundary comes only after the step, which adds its own time."""
_BOUNDARY_STEPS = 3.0

_STRONGER = {
    How.BOUNDARY: How.ABORT,
    How.ABORT: How.RESTART,
    How.RESTART: How.RESTART,
}


def is_overdue(view: View, status: TrainingJobStatus) -> bool:
    """Whether it was waited long enough for those who have not arrived."""
    seconds = arrival_again_seconds(view, status)
    return seconds is not None and seconds <= 0


def arrival_again_seconds(view: View, status: TrainingJobStatus) -> float | None:
    """How long it is still waited for members; None if all are there, or it cannot be known."""
    world, absent = status.world, missing(view, status)
    if world is None or not absent or some_unheard(view, absent):
        return None
    formed_at = world.formed_at.datetime if world.formed_at is not None else view.now
    formed_seconds = (view.now - formed_at) / timedelta(seconds=1)
    present = [w for w in members(view, status) if has_arrived(w, world.generation)]
    if not present:
        return NOBODY_SECONDS[world.how] + _step_allowance(view, status) - formed_seconds
    ages = [w.agent.arrived_seconds for w in present if w.agent is not None]
    first = max((age for age in ages if age is not None), default=None)
    if first is None:
        return RESTART_LATE_SECONDS - formed_seconds
    return (RESTART_LATE_SECONDS if world.how is How.RESTART else LATE_SECONDS) - first


def leave_out_the_late(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    """Try again, without the late ones or, where that leaves too few or nobody came, harder."""
    world, absent = status.world, missing(view, status)
    assert world is not None, "somebody is late for it"
    late = {worker.serial for worker in absent}
    everybody = members(view, status)
    present = [worker for worker in everybody if worker.serial not in late]
    size = largest(view.job.spec.workers, len(present))
    if size and _have_the_state(status, present[:size]):
        how = How.RESTART if world.how is How.RESTART else How.ABORT
        why = f"{len(late)} of {len(everybody)} workers did not arrive"
        return publish(view, status, present[:size], how, why, switch=True, late=absent)
    how = _STRONGER[world.how]
    who = f"{len(late)} of {len(everybody)} workers" if present else "nobody"
    why = f"{who} arrived in time by {world.how}" if not present else f"{who} did not arrive"
    blamed = absent if present else ()
    return publish(view, status, everybody, how, why, switch=True, late=blamed)


def _have_the_state(status: TrainingJobStatus, chosen: list[Worker]) -> bool:
    world = status.world
    if world is None or world.how is How.RESTART:
        return True
    keepers = world.trained.numbers if world.trained is not None else ()
    return any(worker.serial in keepers for worker in chosen)


def _step_allowance(view: View, status: TrainingJobStatus) -> float:
    if status.world is None or status.world.how is not How.BOUNDARY:
        return 0.0
    reports = (w.agent.report for w in members(view, status) if w.agent is not None)
    steps = (r.progress.step_seconds for r in reports if r.progress is not None)
    return _BOUNDARY_STEPS * max((seconds for seconds in steps if seconds), default=0.0)
