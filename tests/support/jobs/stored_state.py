"""A job's state as the API server has it."""

from spotrun.api.cost import Accumulators, Cost
from spotrun.api.status import TrainingJobStatus
from spotrun.state.codec import read, write
from spotrun.state.job_state import JobState


def text_of(state: JobState) -> str:
    """Return the JSON that is stored."""
    return write(state).model_dump_json(by_alias=True, exclude_unset=True)


def read_text(text: str) -> JobState:
    """Read it as an operator does that has just started; what the CRD does not allow raises."""
    return read(TrainingJobStatus.model_validate_json(text, by_alias=True, by_name=False))


def stored(state: JobState) -> JobState:
    """Return the state as it comes back."""
    return read_text(text_of(state))


def cost_of(state: JobState) -> Cost:
    """Return the cost as users read it in the status."""
    found = write(state).cost
    assert found is not None, "some cost is shown"
    return found


def sums_of(state: JobState) -> Accumulators:
    """Return the sums as they are stored."""
    found = write(state).accumulators
    assert found is not None, "something was added up"
    return found
