"""Reach: how few workers a job keeps to while more would be of no use (`decide/unused.py`)."""

from spotrun.api.status import TrainingJobStatus


def asks_for_fewer(status: TrainingJobStatus) -> bool:
    """Whether a job keeps to fewer workers than are wanted."""
    return status.unused is not None and status.unused.retry_at is not None


def rests(status: TrainingJobStatus) -> bool:
    """Whether it keeps to none at all, for what it was given was too little to train."""
    known = status.unused
    return known is not None and known.retry_at is not None and not known.size


def why_fewer(status: TrainingJobStatus) -> str | None:
    """What is to be said of a job that keeps to fewer workers."""
    known = status.unused
    if known is None or known.retry_at is None:
        return None
    had = (
        "too few to train"
        if rests(status)
        else f"more than {known.size}, too few for the next size"
    )
    return f"the nodes that came were {had}, and went back; more are asked for at {known.retry_at}"
