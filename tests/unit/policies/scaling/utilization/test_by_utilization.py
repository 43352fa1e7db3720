"""Utilization proposes a size, and what was measured disposes of it."""

from typing import Any

import pytest

from spotrun.api.spec.workers import TargetResource
from spotrun.policies.scaling.benefit import Curve, Point, Rounds
from spotrun.policies.scaling.facts import Gauge
from spotrun.policies.scaling.options import Wish, options
from spotrun.policies.scaling.utilization.by_utilization import by_utilization
from spotrun.state.stored.scaling import NO_SCALING, Rejected, ScalingState
from tests.support.jobs.builders import later
from tests.support.jobs.scaling_lives import Curve as Steps
from tests.support.jobs.scaling_lives import facts_at, linear, starving, step_at

TO_8 = tuple(range(1, 9))
IN_VAIN = ScalingState(rejected=(Rejected(workers=5, until=later(60)),))


def measured_at(steps: Steps, size: int) -> Point:
    step = step_at(steps, size)
    return Point(size, step.seconds, step.compute, step.data)


def using(share: float | None) -> tuple[Gauge, ...]:
    reported = () if share is None else (share,) * 4
    return (Gauge(TargetResource.CPU, 0.7, reported=reported),)


def proposed(
    used: float | None = 0.95,
    *,
    steps: Steps = linear,
    sizes: tuple[int, ...] = TO_8,
    memory: ScalingState = NO_SCALING,
    microbatches: int | None = None,
    measured: tuple[int, ...] = (2, 4),
    **facts: Any,
) -> Wish:
    known = facts_at(steps, 4, sizes, gauges=using(used), microbatches=microbatches, **facts)
    points = tuple(measured_at(steps, n) for n in measured if n in sizes)
    return by_utilization(options(known, memory, Curve(points, Rounds(microbatches, 1))))


@pytest.mark.parametrize(
    ("given", "size", "reason"),
    [
        pytest.param({}, 8, "UtilizationHigh", id="more work than they can do"),
        pytest.param({"used": 0.7}, 4, "WithinTolerance", id="as they should"),
        pytest.param({"used": None}, 4, "NoUtilization", id="nobody says"),
        pytest.param({"memory": IN_VAIN}, 4, "TriedBefore", id="more were in vain"),
        pytest.param({"sizes": (1, 2, 3, 4)}, 4, "AtLargestSize", id="no larger size"),
        pytest.param({"microbatches": 4}, 4, "AtLargestSize", id="none that is faster"),
        pytest.param({"remaining_samples": 60.0}, 4, "NotRepaid", id="the end is near"),
        pytest.param({"steps": starving, "measured": (4,)}, 4, "NoBenefit", id="data are awaited"),
        pytest.param({"used": 0.2, "sizes": (4, 8)}, 4, "AtSmallestSize", id="no smaller size"),
        pytest.param({"used": 0.2}, 4, "NoBenefit", id="fewer would save nothing"),
        pytest.param(
            {"used": 0.2, "steps": starving, "measured": (4,)},
            1,
            "UtilizationLow",
            id="fewer will do",
        ),
        pytest.param({"steps": starving}, 1, "EfficiencyLow", id="the last ones brought nothing"),
    ],
)
def test_a_size_with_its_reason(given: dict[str, Any], size: int, reason: str) -> None:
    found = proposed(**given)
    assert (found.size, found.reason.value) == (size, reason)


def test_the_words_tell_what_is_used_and_what_more_would_bring() -> None:
    found = proposed()
    assert found.why.endswith("; 8 workers would bring 1.00 of what they add")
    assert found.numbers["efficiency"] == "1.00"


@pytest.mark.parametrize("used", [0.05, 0.3, 0.5, 0.62, 0.7, 0.78, 0.9, 1.0])
def test_the_size_is_one_of_those_allowed_and_no_more_than_twice_as_large(used: float) -> None:
    found = proposed(used, sizes=(1, 4, 7, 8))
    assert found.size in {1, 4, 7, 8}
    assert found.size <= 8
    assert found.why
