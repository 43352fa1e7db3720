"""The best size: where the work costs least, or what utilization and the deadline ask for."""

from typing import Any

import pytest

from spotrun.api.names import ScalingReason
from spotrun.policies.scaling.benefit import Curve, Point, Rounds
from spotrun.policies.scaling.best_size import SPARE, wish
from spotrun.policies.scaling.options import Options, Wish, options
from spotrun.state.stored.scaling import NO_SCALING
from tests.support.jobs.scaling_lives import Curve as Steps
from tests.support.jobs.scaling_lives import facts_at, linear, starving

TO_8 = range(1, 9)
A_DAY = 86_400.0 * 51.2  # samples


def found(
    steps: Steps = linear, size: int = 4, measured: tuple[int, ...] = (2, 4), **facts: Any
) -> Wish:
    return wish(those(steps, size, measured, **facts))


def those(
    steps: Steps = linear, size: int = 4, measured: tuple[int, ...] = (2, 4), **facts: Any
) -> Options:
    known = facts_at(steps, size, TO_8, **facts)
    points = tuple(Point(n, sum(steps(n))) for n in measured)
    return options(known, NO_SCALING, Curve(points, Rounds(None, 1)))


def test_where_time_is_worth_nothing_the_fewest_of_the_cheapest_are_best() -> None:
    """Work that divides evenly costs the same at every size."""
    best = found(usd_per_hour=1.0, hour_worth_usd=0.0)
    assert (best.size, best.reason) == (1, ScalingReason.PAYS_OFF)
    assert best.numbers == {"costRatio": "1.000", "hourWorthUsd": "0"}


def test_where_an_hour_is_worth_more_than_workers_more_of_them_pay_off() -> None:
    best = found(usd_per_hour=1.0, hour_worth_usd=50.0, remaining_samples=A_DAY)
    assert (best.size, best.reason) == (8, ScalingReason.PAYS_OFF)
    assert best.why == "at 8 workers the same work costs 54% of what it does at 4"


def test_what_comes_too_late_to_pay_for_the_change_is_left() -> None:
    best = found(usd_per_hour=1.0, hour_worth_usd=50.0, remaining_samples=60.0)
    assert (best.size, best.reason) == (4, ScalingReason.NOT_REPAID)


def test_workers_that_bring_nothing_are_given_back_for_money_too() -> None:
    best = found(starving, usd_per_hour=1.0, hour_worth_usd=1.0, remaining_samples=A_DAY)
    assert best.size < 4
    assert best.reason is ScalingReason.EFFICIENCY_LOW


def test_without_the_worth_of_an_hour_utilization_proposes() -> None:
    assert found(up_after_seconds=0.0).reason is ScalingReason.UTILIZATION_HIGH


@pytest.mark.parametrize(
    ("needed", "size"),
    [
        pytest.param(51.2 * 0.9, 1, id="one is fast enough, with something to spare"),
        pytest.param(51.2, 2, id="one is, with nothing to spare"),
        pytest.param(51.2 * 4 / SPARE, 4, id="no worker can be spared"),
        pytest.param(51.2 * 4 + 1, 5, id="all are too few"),
        pytest.param(51.2 * 100, 8, id="no size is fast enough: the fastest"),
    ],
)
def test_a_deadline_asks_for_the_smallest_size_that_is_fast_enough(
    needed: float, size: int
) -> None:
    """A worker trains 51.2 samples a second, and for money one would be best."""
    facts: dict[str, Any] = {"usd_per_hour": 1.0, "hour_worth_usd": 0.0}
    best = found(needed_samples_per_second=needed, **facts)
    assert best.size == size
    if size > 1:
        assert best.reason is ScalingReason.NEEDED_FOR_DEADLINE
        assert best.why.startswith(f"the deadline needs {needed:.3g} samples/s; {size} workers")
