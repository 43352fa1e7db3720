"""The change of stage: all start again in their pods, from the checkpoint of the stage before."""

from dataclasses import replace

from spotrun.api.status import Entry
from spotrun.policies.lifecycle.stages import is_entered
from spotrun.state.job_state import JobState
from spotrun.state.replicas import whole
from spotrun.state.view import View
from spotrun.state.world_members import training, world_members
from spotrun.state.world_transitions import publish


def is_due(_view: View, status: JobState) -> bool:
    """Whether the workers that train are still in the stage before."""
    return not is_entered(status)


def enter_stage(view: View, status: JobState) -> JobState:
    """Start all present workers again; none brings its state, because the checkpoint has all of it.

    The processes of the last stage may end first, as in a planned restart.
    """
    stage = status.stage
    assert stage is not None, "a stage is to be entered"
    why = f"stage {stage.name} begins"
    chosen = whole(view, world_members(view, status)) if training(status) else []
    status = publish(
        view, status, chosen, Entry.RESTART, why, is_active=bool(chosen), is_planned=True
    )
    if chosen:
        return status
    return replace(status, world=replace(status.world, state_holders=()))
