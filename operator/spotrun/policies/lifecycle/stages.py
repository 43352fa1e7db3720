"""The stages of a training: when one ends, and the next begins from its checkpoint.

A trainer under `Run` ends its loop at `untilStep`, or with the next step once `stopWhen` is
reached, and reports that it is complete and saved. Then the operator decides the next stage, in one
write together with the checkpoint from which it begins. After a loss before that write training
continues in the old stage, and after a loss that follows it in the new one. `world/stage_change.py`
starts the processes again in their pods.
"""

from collections.abc import Iterable
from dataclasses import replace

from spotrun.api.names import Reason
from spotrun.api.spec.stages import Stage
from spotrun.policies.lifecycle.early_stop import is_carried_out, seconds_to_wait, succeed
from spotrun.policies.lifecycle.patience import followed
from spotrun.policies.policy import Policy
from spotrun.state.actions import Announce
from spotrun.state.conditions import read_reason, record
from spotrun.state.job_state import JobState
from spotrun.state.stored.training import NO_COURSE, StageState
from spotrun.state.view import FINISHED, View


def follow_stage(view: View, status: JobState) -> JobState:
    """Follow the stage; end one whose trainer does not end by itself."""
    stages = view.job.spec.stages
    if status.phase in FINISHED:
        return status
    if not stages:
        return status if status.stage is None else replace(status, stage=None)
    stage = _followed(view, status, stages)
    status = status if stage == status.stage else replace(status, stage=stage)
    stored = view.job.status.stage
    if stored is None or not is_carried_out(view, status, stored.ends_since):
        return status
    if has_next_stage(view, status):
        return next_stage(view, status)
    return end_last_stage(view, status)


def has_next_stage(view: View, status: JobState) -> bool:
    """Whether another stage follows the one that trains."""
    stages, stage = view.job.spec.stages, status.stage
    return stages is not None and stage is not None and stage.index + 1 < len(stages)


def is_ended_by_metric(status: JobState) -> bool:
    """Whether a metric has ended the stage that trains."""
    return status.stage is not None and status.stage.course.decided_at is not None


def end_last_stage(view: View, status: JobState) -> JobState:
    """End the job as succeeded with its last stage."""
    assert status.stage is not None, "its end was decided"
    reason = read_reason(status.stage.course.reason, Reason.STAGE_ENDED)
    why = f"stage {status.stage.name}, the last one, has ended: {status.stage.why}"
    return succeed(view, status, reason, why)


def is_entered(status: JobState) -> bool:
    """Whether the workers that train do so in the stage that was decided."""
    return status.stage is None or status.stage.index == status.world.stage


def next_stage(view: View, status: JobState) -> JobState:
    """Begin the next stage from the checkpoint that the last one has left."""
    stages, stage, saved = view.job.spec.stages, status.stage, status.checkpoint
    assert stages is not None, "there is a next one"
    assert stage is not None, "there is a next one"
    index = stage.index + 1
    step = saved.step if saved is not None else status.progress.step or 0
    begun = StageState(stages[index].name, index, since_step=step, since=view.now)
    where = f"from {saved.name}" if saved is not None else f"after step {step}"
    ended = stage.why or f"the training of stage {stage.name} is complete"
    why = f"stage {begun.name}, {index + 1} of {len(stages)}, begins {where}: {ended}"
    numbers = {"stage": str(index), "step": str(step)}
    return record(view, replace(status, stage=begun), "Stage", why, numbers)


def stage_news(view: View, status: JobState) -> Iterable[Announce]:
    """Announce each stage that begins."""
    before, now = view.job.status.stage, status.stage
    if now is not None and now.index and (before is None or before.index != now.index):
        of = len(view.job.spec.stages or ())
        why = f"stage {now.name}, {now.index + 1} of {of}, begins after step {now.since_step}"
        yield Announce(Reason.STAGE_BEGUN, why)


def wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when the operator stops waiting for the trainer to end the stage by itself."""
    return seconds_to_wait(view, status.stage.ends_since) if status.stage is not None else None


def _followed(view: View, status: JobState, stages: tuple[Stage, ...]) -> StageState:
    stage = status.stage or StageState(stages[0].name, 0, since_step=0, since=view.now)
    index = min(stage.index, len(stages) - 1)  # the list may have changed while it was suspended
    wanted = stages[index]
    stage = replace(stage, index=index, name=wanted.name)
    if stage.ends_since is not None or not is_entered(replace(status, stage=stage)):
        return stage
    if wanted.stop_when is not None:
        stage = _judged(view, status, stage, wanted)
    step, until = status.progress.step or 0, wanted.until_step
    if stage.ends_since is None and until is not None and step >= until:
        why = f"stage {stage.name} lasts until step {until}, and step {step} is done"
        return replace(stage, ends_since=view.now, why=why)
    return stage


def _judged(view: View, status: JobState, stage: StageState, wanted: Stage) -> StageState:
    assert wanted.stop_when is not None, "otherwise there is nothing to judge"
    course = stage.course
    if course == NO_COURSE:  # values of the stage before do not count in this one
        metric = wanted.stop_when.metric
        course = replace(
            NO_COURSE, metric=metric, step=stage.since_step, best_step=stage.since_step
        )
    judged = followed(wanted.stop_when, course, status.metrics, view.now)
    if judged == course:
        return stage
    return replace(stage, course=judged, ends_since=judged.decided_at, why=judged.message)


STAGES = Policy(follow_stage, wake_after_seconds=wake_after_seconds, announce=stage_news)
