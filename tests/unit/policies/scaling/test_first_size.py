"""The size to begin with."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.api.names import ScalingReason
from spotrun.policies.scaling.facts import Cap, SizingFacts
from spotrun.policies.scaling.first_size import first_size

HOUR = 3600.0
FOUR_TO_PAY = Cap(4, ScalingReason.BUDGET_LIMIT)


def unmeasured(replicas: int, **facts: Any) -> SizingFacts:
    sizes = tuple(facts.pop("sizes", range(1, 17)))
    return SizingFacts(sizes=sizes, wanted=replicas, running=0, **facts)


@pytest.mark.parametrize(
    ("replicas", "facts", "first"),
    [
        pytest.param(3, {}, 3, id="as the user says"),
        pytest.param(3, {"hour_worth_usd": 9.0}, 3, id="whatever time is worth"),
        pytest.param(1, {}, 4, id="half way"),
        pytest.param(1, {"hour_worth_usd": 9.0}, 4, id="half way if time is worth something"),
        pytest.param(3, {"hour_worth_usd": 0.0}, 1, id="the cheapest"),
        pytest.param(1, {"free": 0}, 1, id="there is no room for more"),
        pytest.param(1, {"free": 3}, 2, id="half way to what there is"),
        pytest.param(1, {"caps": (FOUR_TO_PAY,)}, 2, id="half way to what can be paid"),
        pytest.param(2, {"sizes": (2, 4, 8, 16)}, 4, id="an allowed size, rather less"),
        pytest.param(8, {"sizes": (8, 16)}, 8, id="no size is half way"),
        pytest.param(1, {"sizes": range(1, 65)}, 8, id="of many"),
    ],
)
def test_the_first_size(replicas: int, facts: dict[str, Any], first: int) -> None:
    assert first_size(unmeasured(replicas, **facts)).size == first


@pytest.mark.parametrize(
    ("hours", "facts", "first"),
    [
        pytest.param(100, {}, 4, id="there is time to grow"),
        pytest.param(3, {}, 8, id="time to grow once"),
        pytest.param(1, {}, 16, id="no time to grow"),
        pytest.param(0, {}, 16, id="it has passed"),
        pytest.param(1, {"changeover_seconds": 60.0}, 4, id="joining workers come quickly"),
        pytest.param(1, {"caps": (FOUR_TO_PAY,)}, 4, id="no more than can be paid"),
        pytest.param(1, {"free": 5}, 6, id="no more than there is room for"),
        pytest.param(100, {"hour_worth_usd": 0.0}, 1, id="the cheapest, if there is time"),
        pytest.param(3, {"hour_worth_usd": 0.0}, 8, id="in time is more than cheap"),
    ],
)
def test_a_near_deadline_raises_it(hours: float, facts: dict[str, Any], first: int) -> None:
    made = unmeasured(1, deadline_seconds=hours * HOUR, **facts)
    assert first_size(made).size == first


def test_a_job_that_trains_already_goes_on_from_its_size() -> None:
    """It was in mode Manual until now."""
    assert first_size(replace(unmeasured(1), running=1)).size == 1
    assert first_size(replace(unmeasured(4, hour_worth_usd=0.0), running=4)).size == 4


def test_a_deadline_overrides_no_number_that_the_user_gave() -> None:
    assert first_size(unmeasured(2, deadline_seconds=HOUR)).size == 2


@given(
    sizes=st.lists(st.integers(1, 100), min_size=1, max_size=9, unique=True).map(sorted),
    cap=st.none() | st.integers(0, 100),
    free=st.none() | st.integers(0, 100),
    hours=st.none() | st.floats(0, 100),
    worth=st.sampled_from([None, 0.0, 9.0]),
)
def test_it_is_allowed_and_there_may_be_so_many(
    sizes: list[int], cap: int | None, free: int | None, hours: float | None, worth: float | None
) -> None:
    facts = unmeasured(
        sizes[0],
        sizes=sizes,
        caps=() if cap is None else (Cap(cap, ScalingReason.NO_CAPACITY),),
        free=free,
        deadline_seconds=None if hours is None else hours * HOUR,
        hour_worth_usd=worth,
    )
    size = first_size(facts).size
    limits = [limit for limit in (cap, free and sizes[0] + free) if limit is not None]
    assert size in sizes
    assert size <= max([min(limits, default=sizes[-1]), sizes[0]])
