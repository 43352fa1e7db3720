import threading
import time

import pytest

from spotrun_trainer.hooks.time_shares import Moment, Shares, TimeShares, busy_nanoseconds


def shares(busy: int, data: int = 0, busy_with_data: int = 0) -> Shares | None:
    """The shares of 100 ns."""
    times = TimeShares()
    assert times.take(Moment(0, 0, 0, 0)) is None
    return times.take(Moment(100, busy, data, busy_with_data))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (shares(100), Shares(1.0, 0.0, 0.0)),
        (shares(60), Shares(0.6, 0.0, 0.4)),
        (shares(60, data=30), Shares(0.6, 0.3, 0.1)),
        (shares(100, data=30, busy_with_data=30), Shares(0.7, 0.3, 0.0)),  # no loader workers
        (shares(130, data=130), Shares(0.0, 1.0, 0.0)),  # clocks that do not quite agree
    ],
)
def test_time_is_computing_waiting_for_data_or_for_others(
    found: Shares | None, expected: Shares
) -> None:
    assert found == pytest.approx(expected)


def test_only_the_last_moments_count() -> None:
    times = TimeShares()
    for number in range(20):
        found = times.take(Moment(number * 100, min(number, 10) * 100, 0, 0))
    assert found == Shares(0.0, 0.0, 1.0)


def test_a_thread_that_waits_is_not_busy() -> None:
    before = busy_nanoseconds()
    threading.Event().wait(0.2)
    waited, busy = busy_nanoseconds(), time.thread_time_ns()
    assert before is not None
    assert waited is not None
    assert waited - before < 100_000_000
    assert busy > 0
