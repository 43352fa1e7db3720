"""The storage format of a job's state: `read` and `write` are the only way there and back."""

from spotrun.api.status import TrainingJobStatus
from spotrun.state.job_state import JobState

_SAID = ("phase", "reason", "message", "conditions")
"""What is written into a status that is kept unread."""


def read(status: TrainingJobStatus) -> JobState:
    """Read the state from a status that an operator can have written."""
    return JobState(
        phase=status.phase,
        reason=status.reason,
        message=status.message,
        observed_generation=status.observed_generation,
        suspended_by=status.suspended_by,
        workers=status.workers,
        world=status.world,
        progress=status.progress,
        checkpoint=status.checkpoint,
        pace=status.pace,
        scaling=status.scaling,
        orders=status.orders,
        interruptions=status.interruptions,
        restarts=status.restarts,
        rejections=status.rejections,
        unused=status.unused,
        cost=status.cost,
        decisions=status.decisions,
        conditions=status.conditions,
        next_serial=status.next_serial,
        settled=status.settled,
        lost=status.lost,
        failed=status.failed,
        accumulators=status.accumulators,
    )


def read_said(status: TrainingJobStatus) -> JobState:
    """Read what is said of the job from a status that no operator can have written.

    Its lists could fill the memory; they are kept as they are, for somebody to mend.
    """
    return JobState(
        phase=status.phase,
        reason=status.reason,
        message=status.message,
        observed_generation=status.observed_generation,
        suspended_by=status.suspended_by,
        conditions=status.conditions,
        next_serial=status.next_serial,
        unread=status,
    )


def write(state: JobState) -> TrainingJobStatus:
    """Write the state as it is stored."""
    if state.unread is not None:
        return state.unread.model_copy(update={name: getattr(state, name) for name in _SAID})
    # Policies keep the limits of the CRD; the API server checks them, and its refusal is told.
    return TrainingJobStatus.model_construct(
        phase=state.phase,
        reason=state.reason,
        message=state.message,
        observed_generation=state.observed_generation,
        suspended_by=state.suspended_by,
        workers=state.workers,
        world=state.world,
        progress=state.progress,
        checkpoint=state.checkpoint,
        pace=state.pace,
        scaling=state.scaling,
        orders=state.orders,
        interruptions=state.interruptions,
        restarts=state.restarts,
        rejections=state.rejections,
        unused=state.unused,
        cost=state.cost,
        decisions=state.decisions,
        conditions=state.conditions,
        next_serial=state.next_serial,
        settled=state.settled,
        lost=state.lost,
        failed=state.failed,
        accumulators=state.accumulators,
    )
