"""The pause after a failure, which grows with each one."""

from datetime import datetime, timedelta

from spotrun.state.view import View

FIRST_PAUSE = timedelta(seconds=10)
LONGEST_PAUSE = timedelta(minutes=5)


def pause_after(failures: int) -> timedelta:
    """Return 10 s, doubled with every failure, up to 5 min."""
    doublings = min(failures - 1, 10)
    return min(FIRST_PAUSE * (1 << doublings), LONGEST_PAUSE)


def pause_seconds(view: View, retry_at: datetime | None) -> float | None:
    """Return how many seconds are left of a pause; None if there is no pause."""
    if retry_at is None or retry_at <= view.now:
        return None
    return (retry_at - view.now) / timedelta(seconds=1)
