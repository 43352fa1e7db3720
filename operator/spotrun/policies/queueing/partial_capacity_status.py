"""Reach: how few workers a job keeps to while more would be of no use.

`policies/workers/partial_capacity.py` decides it.
"""

from spotrun.api.status import Unused
from spotrun.state.job_state import JobState


def asks_for_fewer(status: JobState) -> bool:
    """Whether a job keeps to fewer workers than are wanted."""
    return _kept(status) is not None


def rests(status: JobState) -> bool:
    """Whether it keeps to none at all, for what it was given was too little to train."""
    kept = _kept(status)
    return kept is not None and not kept.size


def why_fewer(status: JobState) -> str | None:
    """What is to be said of a job that keeps to fewer workers."""
    kept = _kept(status)
    if kept is None:
        return None
    had = f"more than {kept.size}, too few for the next size" if kept.size else "too few to train"
    return f"the nodes that came were {had}, and went back; more are asked for at {kept.retry_at}"


def _kept(status: JobState) -> Unused | None:
    known = status.unused
    return known if known is not None and known.retry_at is not None else None
