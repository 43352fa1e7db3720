import logging

from hypothesis import given
from hypothesis import strategies as st

from spotrun.kube.backoff import Backoff, log_level

BACKOFF = Backoff(0.2, 15.0)
rolls = st.floats(0, 1, exclude_max=True)


def test_pauses_double_up_to_the_longest() -> None:
    longest = [BACKOFF.pause_seconds(n, lambda: 1.0) for n in range(1, 10)]
    assert longest == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15.0, 15.0]


@given(st.integers(0, 10**9), rolls)
def test_pauses_stay_between_half_and_the_longest(failures: int, roll: float) -> None:
    assert 0.1 <= BACKOFF.pause_seconds(failures, lambda: roll) <= 15.0


@given(st.integers(0, 100), rolls, st.floats(0, 600))
def test_a_retry_after_is_never_undercut(failures: int, roll: float, asked: float) -> None:
    pause = BACKOFF.pause_seconds(failures, lambda: roll, asked)
    assert asked <= pause <= max(15.0, 1.1 * asked)


def test_an_outage_is_told_of_ever_more_rarely() -> None:
    loud = [failures for failures in range(1, 100) if log_level(failures) == logging.WARNING]

    assert loud == [1, 2, 4, 8, 16, 32, 64]
