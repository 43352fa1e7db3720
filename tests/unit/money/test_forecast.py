from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.money.forecast import Forecast, Mark, forecast, usd_per
from spotrun.money.units import Usd

STEADY = [Mark(0, Usd(0)), Mark(100, Usd(1)), Mark(200, Usd(2))]


def test_what_is_left_costs_what_the_steps_cost_of_late() -> None:
    assert forecast(Usd(2), 800, STEADY) == Forecast(Usd(10), Usd(10), Usd(10))


def test_the_range_is_that_of_the_stretches() -> None:
    marks = [*STEADY, Mark(300, Usd(5))]
    assert forecast(Usd(5), 300, marks) == Forecast(Usd(10), Usd(8), Usd(14))


def test_before_a_step_was_seen_nothing_is_foretold() -> None:
    assert forecast(Usd(3), 800, []) is None
    assert forecast(Usd(3), 800, [Mark(0, Usd(0)), Mark(0, Usd(3))]) is None


def test_steps_that_were_lost_make_the_others_dearer() -> None:
    """50 steps were done, lost and done again: 100 durable ones cost what 150 do."""
    marks = [Mark(100, Usd(1)), Mark(200, Usd(Fraction(5, 2)))]
    lost = forecast(Usd(Fraction(5, 2)), 100, marks)
    assert lost is not None
    assert lost.usd == Usd(4)


def test_a_job_that_is_set_back_has_those_steps_before_it_again() -> None:
    marks = [*STEADY, Mark(150, Usd(Fraction(5, 2)))]
    told = forecast(Usd(Fraction(5, 2)), 850, marks)
    assert told is not None
    assert told.usd == Usd(11)


@given(
    st.integers(1, 50),
    st.fractions(min_value=Fraction(1, 1000), max_value=10),
    st.fractions(min_value=0, max_value=1),
    st.integers(0, 500),
)
def test_a_steady_job_is_foretold_exactly_between_checkpoints_too(
    steps: int, price: Fraction, part: Fraction, left: int
) -> None:
    """Money spent since the last checkpoint has bought steps that remain to be made durable."""
    marks = [Mark(n * steps, Usd(n * steps * price)) for n in range(4)]
    since = min(part * steps, Fraction(left))
    told = forecast(Usd((3 * steps + since) * price), left, marks)
    at_the_end = Usd((3 * steps + left) * price)
    assert told == Forecast(at_the_end, at_the_end, at_the_end)


increases = st.tuples(st.integers(0, 20), st.integers(0, 100))


@given(st.lists(increases, min_size=1, max_size=12), st.integers(0, 1000), st.data())
def test_hours_outside_of_the_windows_and_suspensions_change_nothing(
    gains: list[tuple[int, int]], left: int, data: st.DataObject
) -> None:
    """However often the operator looks while nothing is spent and nothing is done."""
    marks = [Mark(0, Usd())]
    for steps, usd in gains:
        marks.append(Mark(marks[-1].steps + steps, marks[-1].usd + Usd(usd)))
    with_pauses = [mark for mark in marks for _ in range(data.draw(st.integers(1, 3)))]
    accrued = marks[-1].usd
    assert forecast(accrued, left, with_pauses) == forecast(accrued, left, marks)


@given(st.lists(increases, min_size=1, max_size=12), st.integers(0, 1000), st.integers(0, 100))
def test_a_forecast_is_never_below_what_was_spent_and_lies_within_its_range(
    gains: list[tuple[int, int]], left: int, since: int
) -> None:
    marks = [Mark(0, Usd())]
    for steps, usd in gains:
        marks.append(Mark(marks[-1].steps + steps, marks[-1].usd + Usd(usd)))
    accrued = marks[-1].usd + Usd(since)
    told = forecast(accrued, left, marks)
    if told is not None:
        assert accrued <= told.low <= told.usd <= told.high


def test_a_standstill_that_costs_more_than_a_stretch_is_seen_before_it_ends() -> None:
    stuck = forecast(Usd(6), 800, STEADY)
    assert stuck is not None
    assert stuck.usd == Usd(13)


@pytest.mark.parametrize(
    ("done", "unit", "usd"),
    [(400, 1, Fraction(1, 4)), (400, 40, Fraction(10)), (4_000_000, 1_000_000, Fraction(25))],
)
def test_what_a_step_an_epoch_and_a_million_samples_cost(
    done: int, unit: int, usd: Fraction
) -> None:
    assert usd_per(Usd(100), done, unit) == Usd(usd)
    assert usd_per(Usd(100), 0, unit) is None
