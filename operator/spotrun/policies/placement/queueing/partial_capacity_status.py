"""Partial capacity as status shows it: a job asks for fewer workers while more would be useless.

`policies/workers/partial_capacity.py` decides that.
"""

from spotrun.api.field_types.text_values import Time
from spotrun.state.job_state import JobState


def asks_for_fewer(status: JobState) -> bool:
    """Whether a job asks for fewer workers than it wants."""
    return status.unused.retry_at is not None


def waits_before_asking_again(status: JobState) -> bool:
    """Whether a job asks for no workers at all, because it was given too few to train."""
    return asks_for_fewer(status) and not status.unused.size


def why_fewer(status: JobState) -> str | None:
    """Return the message of a job that asks for fewer workers."""
    kept = status.unused
    if kept.retry_at is None:
        return None
    enough = f"enough for {kept.size} workers but not for the next size"
    had = enough if kept.size else "too few to train"
    again_at = Time.of(kept.retry_at)
    again = f"the operator asks for more at {again_at}"
    return f"the nodes that came were {had}, so unused ones were given back; {again}"
