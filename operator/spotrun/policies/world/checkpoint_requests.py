"""Orders: an extra checkpoint, before state is lost that no other worker has."""

from dataclasses import replace
from datetime import datetime, timedelta

from spotrun.api.field_types.text_values import Time
from spotrun.api.names import ANNOTATION_CHECKPOINT_WANTED, ConditionType
from spotrun.api.status import Entry
from spotrun.policies.lifecycle.early_stop import must_be_asked_to_save
from spotrun.policies.placement.on_demand_need import checkpoint_would_help
from spotrun.policies.placement.plan import retiring
from spotrun.policies.policy import Policy
from spotrun.state.conditions import holds_since
from spotrun.state.job_state import JobState, Orders
from spotrun.state.replicas import holds_all, whole
from spotrun.state.view import FINISHED, View
from spotrun.state.world_members import (
    can_be_asked_to_save,
    is_answered,
    training,
    training_set,
    world_members,
)

AGAIN_SECONDS = 60.0
"""A longer notice justifies another checkpoint."""


def order_checkpoint(view: View, status: JobState) -> JobState:
    """Ask for a checkpoint before a suspension, and before more leave than a world can spare."""
    if status.phase in FINISHED or not training(status) or not may_be_asked(view, status):
        return status
    last = status.orders.asked_at
    if since := holds_since(status, ConditionType.SUSPENDED):
        is_due = last is None or last < since
    else:
        is_wanted = _leaves_too_few(view, status) or _hands_over(view, status)
        is_wanted = is_wanted or checkpoint_would_help(view, status)
        is_wanted = is_wanted or (is_restart_planned(view, status) and not is_saved(view, status))
        is_due = is_wanted and (last is None or view.now - last >= timedelta(seconds=AGAIN_SECONDS))
        is_due = is_due or _is_asked_for(view, last) or _ends_early(view, status, last)
    if not is_due:
        return status
    count = status.orders.checkpoint + 1
    return replace(status, orders=Orders(checkpoint=count, asked_at=view.now))


def _ends_early(view: View, status: JobState, last: datetime | None) -> bool:
    """Whether the training or its stage must end, and the workers that train only save on order."""
    stage = status.stage.ends_since if status.stage is not None else None
    decided_at = status.stop_when.decided_at or stage
    if decided_at is None or not must_be_asked_to_save(view, status):
        return False
    return last is None or last < decided_at


def _is_asked_for(view: View, last: datetime | None) -> bool:
    """Whether a user has asked since the last order; an invalid or future time does not count."""
    try:
        wanted = Time(view.job.script.get(ANNOTATION_CHECKPOINT_WANTED, "")).datetime
    except ValueError:
        return False
    if wanted.tzinfo is None:
        return False
    return wanted <= view.now and (last is None or last < wanted)


def may_be_asked(view: View, status: JobState) -> bool:
    """Whether a checkpoint may be ordered, and waited for."""
    return view.job.spec.checkpoint is not None and can_be_asked_to_save(view, status)


def is_saved(view: View, status: JobState) -> bool:
    """Whether hardly any work would be lost if all continued from the last checkpoint."""
    saved, done = status.checkpoint, status.progress
    if saved is None:
        return False
    if saved.step >= (done.step or 0):
        return True
    asked_at = status.orders.asked_at
    is_fresh = view.now - saved.time < timedelta(seconds=AGAIN_SECONDS)
    return is_fresh and asked_at is not None and is_answered(status, asked_at)


def is_restart_planned(view: View, status: JobState) -> bool:
    """Whether a world is prepared that restarts from the last checkpoint, and all are ready."""
    world = status.world
    if world.is_active or world.entry is not Entry.RESTART or not training(status):
        return False
    if view.job.spec.checkpoint is None:
        return False
    training_now = training_set(status)
    joining = [n for n in world.members if n not in training_now]
    return bool(world.members) and all(
        n in view.by_worker_id and view.by_worker_id[n].is_ready for n in joining
    )


def _hands_over(view: View, status: JobState) -> bool:
    """Whether only leaving workers hold some part of the state, and others wait to continue."""
    size, training_now = view.limited_size, set(training(status))
    going = retiring(view, status, size) | (training_now - view.staying_worker_ids)
    workers = view.job.effective_workers
    stay = [view.by_worker_id[n] for n in training_now - going if n in view.by_worker_id]
    if not training_now or holds_all(stay, workers) or is_saved(view, status):
        return False
    joining = (w for w in view.staying if w.is_ready and w.worker_id not in training_now)
    return len(whole(view, [*stay, *joining])) == size


def _leaves_too_few(view: View, status: JobState) -> bool:
    if all(w.worker_id in view.staying_worker_ids for w in world_members(view, status)):
        return False
    training_now = training_set(status)
    rest = [
        worker for worker in view.staying if worker.is_ready or worker.worker_id in training_now
    ]
    return not whole(view, rest)


CHECKPOINT_REQUESTS = Policy(order_checkpoint)
