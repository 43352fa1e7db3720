"""The course of a job to its deadline: durable progress, usable time and its own measurements."""

import math
from datetime import datetime, timedelta

from spotrun.api.names import Reason
from spotrun.api.spec.schedule import Schedule
from spotrun.policies.deadline.measurements import launched_at
from spotrun.policies.deadline.pacing import Course
from spotrun.policies.deadline.policy import finishes_by
from spotrun.policies.lifecycle.schedule_windows import open_seconds
from spotrun.state.job_state import JobState
from spotrun.state.sizes import within
from spotrun.state.snapshot import Worker
from spotrun.state.stored.training import Pace
from spotrun.state.view import View
from spotrun.state.world_members import has_arrived, some_unheard, training_set, world_number

PRIOR_CHANGEOVER_SECONDS = 600.0
"""The changeover that is assumed until this job has measured its own: a node, a large image and a
model take 6 min in a published measurement (SkyNomad, NSDI'27), and some clouds are slower."""
_OWN_WEIGHT = 0.3
"""The weight of the newest changeover in the running mean."""
_NEARLY_ALL = 0.9


def course(view: View, status: JobState) -> Course | None:
    """Return the job's course; None without a deadline, or while its total work is unknown."""
    parts = (status.pace, status.progress, status.checkpoint, status.world)
    return view.once("course", parts, lambda: _course(view, status))


def _course(view: View, status: JobState) -> Course | None:
    deadline = finishes_by(view)
    total, step_seconds = total_steps(status), full_step_seconds(view, status)
    if deadline is None or not total or step_seconds is None:
        return None
    schedule, start = view.job.spec.schedule, view.job.created_at
    usual, longest = changeovers(status.pace)
    durable = status.checkpoint.step if status.checkpoint is not None else 0
    is_held = any(works(view, status, worker) for worker in view.staying)
    done = (status.progress.step or 0) if is_held else 0
    return Course(
        work_seconds=total * step_seconds,
        done_seconds=min(durable, total) * step_seconds,
        allowed_seconds=usable_seconds(schedule, start, deadline),
        used_seconds=usable_seconds(schedule, start, view.now),
        changeover_seconds=usual,
        longest_changeover_seconds=longest,
        ahead_seconds=_ahead_seconds(view, status, usual),
        unsaved_seconds=max(done - durable, 0) * step_seconds,
    )


def total_steps(status: JobState) -> int | None:
    """The steps of the whole training; None while the trainer does not report them."""
    return status.progress.total_steps


def full_step_seconds(view: View, status: JobState) -> float | None:
    """Return the duration of a step at the wanted size; None before it was measured.

    A duration that was measured at another size is scaled by the number of workers.
    """
    pace = status.pace
    if pace.step_seconds is None:
        return None
    size = full_size(view)
    return float(pace.step_seconds) * (pace.workers or size) / size


def full_size(view: View) -> int:
    """The wanted size, also while the job asks for fewer workers because of lacking capacity."""
    limits = (one for one in view.limits if one.reason is not Reason.WAITING_FOR_CAPACITY)
    return within(view.job.effective_workers, limits)


def changeovers(pace: Pace) -> tuple[float, float]:
    """Return the usual seconds of a changeover, and the most in nine of ten cases."""
    own = pace.changeovers
    if not own:
        return PRIOR_CHANGEOVER_SECONDS, PRIOR_CHANGEOVER_SECONDS
    usual = float(own[0])
    for seconds in own[1:]:
        usual += _OWN_WEIGHT * (seconds - usual)
    longest = sorted(own)[math.ceil(_NEARLY_ALL * len(own)) - 1]
    return usual, max(float(longest), usual)


def works(view: View, status: JobState, worker: Worker) -> bool:
    """Whether a worker trains: it has finished all that it needed before it began.

    For a new leader the status decides, until the worker's agent has reported to it.
    """
    if worker.worker_id not in training_set(status):
        return False
    return has_arrived(worker, world_number(status)) or some_unheard(view, (worker,))


def _ahead_seconds(view: View, status: JobState, usual_seconds: float) -> float:
    """Return how much of a changeover is still to come before the job runs at full size."""
    placed = [worker for worker in view.staying if worker.node is not None]
    if len(placed) < full_size(view):
        return usual_seconds
    begun = [launched_at(view, w) or view.now for w in placed if not works(view, status, w)]
    waits = (usual_seconds - (view.now - moment) / timedelta(seconds=1) for moment in begun)
    return max((wait for wait in waits if wait > 0), default=0.0)


def usable_seconds(schedule: Schedule | None, start: datetime, end: datetime) -> float:
    """The time between two moments in which the job may run."""
    if schedule is not None:
        return open_seconds(schedule, start, end)
    return max((end - start).total_seconds(), 0.0)
