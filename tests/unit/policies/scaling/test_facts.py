"""The facts of a choice of size, and what follows from them without a choice."""

import pytest

from spotrun.api.names import ScalingReason
from spotrun.api.spec.workers import TargetResource
from spotrun.policies.scaling.facts import Cap, Gauge, SizingFacts, StepTimes

SILENT = Gauge(TargetResource.GPU, 0.8, silent=2)
TOLD = Gauge(TargetResource.GPU, 0.8, tolerance=0.25, reported=(0.5, 0.7), silent=1)
DRY, DEAR = Cap(4, ScalingReason.NO_CAPACITY), Cap(3, ScalingReason.BUDGET_LIMIT)


@pytest.mark.parametrize(
    ("gauge", "lowest", "usage"),
    [(TOLD, 0.6, 0.6), (SILENT, 0.72, None)],
    ids=["reported", "silent"],
)
def test_use_is_the_mean_of_what_is_told_and_a_part_of_the_target_is_near_enough(
    gauge: Gauge, lowest: float, usage: float | None
) -> None:
    assert gauge.lowest == pytest.approx(lowest)
    assert gauge.usage == (None if usage is None else pytest.approx(usage))


def test_a_job_trains_the_samples_of_a_step_in_its_time() -> None:
    assert StepTimes(workers=2, seconds=0.5, samples=64).samples_per_second == 128


@pytest.mark.parametrize(
    ("facts", "is_settled"),
    [
        pytest.param({}, False, id="no target"),
        pytest.param({"gauges": (SILENT,)}, False, id="nobody has told"),
        pytest.param({"gauges": (SILENT, TOLD)}, True, id="one is told"),
        pytest.param({"use_unknown": "no metrics"}, True, id="nobody will tell"),
        pytest.param({"hour_worth_usd": 0.0}, True, id="the fewest will do"),
        pytest.param({"hour_worth_usd": 5.0}, False, id="an hour is worth something"),
    ],
)
def test_what_workers_use_is_settled_once_it_is_told_or_never_will_be(
    facts: dict[str, object], is_settled: bool
) -> None:
    known = SizingFacts(sizes=(1, 2), wanted=1, running=1, **facts)  # type: ignore[arg-type]
    assert known.is_use_settled is is_settled


@pytest.mark.parametrize(
    ("caps", "tightest"), [((), None), ((DRY,), DRY), ((DRY, DEAR), DEAR), ((DEAR, DRY), DEAR)]
)
def test_of_several_limits_the_tightest_counts(caps: tuple[Cap, ...], tightest: Cap | None) -> None:
    assert SizingFacts(sizes=(1,), wanted=1, running=1, caps=caps).cap == tightest
