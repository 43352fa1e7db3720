import math
from typing import Any

import pytest

from spotrun.api.names import Reason
from spotrun.api.spec.stop_when import MetricStop
from spotrun.policies.lifecycle.patience import followed
from spotrun.state.stored.training import NO_COURSE, MetricCourse
from spotrun.wire import Metric
from tests.support.jobs.builders import NOW


def course(wanted: dict[str, Any], *values: tuple[int, float]) -> MetricCourse:
    parsed = MetricStop.model_validate({"metric": "loss", **wanted}, strict=False)
    found = NO_COURSE
    for step, value in values:
        found = followed(parsed, found, [Metric("other", 9.0, 9), Metric("loss", value, step)], NOW)
    return found


@pytest.mark.parametrize(
    ("wanted", "values", "reason"),
    [
        ({"noBetterReports": 2}, [(1, 3.0), (2, 2.0), (3, 1.0)], None),
        ({"noBetterReports": 2}, [(1, 3.0), (2, 3.0)], None),
        ({"noBetterReports": 2}, [(1, 3.0), (2, 3.0), (3, 3.5)], Reason.NO_IMPROVEMENT),
        ({"noBetterReports": 2}, [(1, 3.0), (2, 3.0), (3, 2.0), (4, 2.5)], None),
        # steps that come again after a loss count once, whatever they report then
        ({"noBetterReports": 2}, [(10, 3.0), (20, 3.1), (20, 3.1), (15, 3.2), (20, 4.0)], None),
        ({"noBetterReports": 2}, [(1, math.nan), (2, math.inf)], Reason.NO_IMPROVEMENT),
        ({"noBetterReports": 2}, [(1, math.nan), (2, 5.0), (3, math.nan)], None),
        ({"noBetterReports": 1, "minImprovement": "0.1"}, [(1, 3.0), (2, 2.85)], None),
        (
            {"noBetterReports": 1, "minImprovement": "0.1"},
            [(1, 3.0), (2, 2.9)],
            Reason.NO_IMPROVEMENT,
        ),
        ({"noBetterSteps": 100}, [(50, 3.0), (100, 3.0), (149, 3.0)], None),
        ({"noBetterSteps": 100}, [(50, 3.0), (150, 3.0)], Reason.NO_IMPROVEMENT),
        ({"noBetterSteps": 100}, [(50, math.nan), (150, math.nan)], Reason.NO_IMPROVEMENT),
        ({"goal": "2.5"}, [(1, 3.0), (2, 2.6)], None),
        ({"goal": "2.5"}, [(1, 3.0), (2, 2.5)], Reason.GOAL_REACHED),
        ({"goal": "2.5"}, [(1, -math.inf)], None),
        ({"goal": "0.9", "direction": "Maximize"}, [(1, 0.5), (2, 0.91)], Reason.GOAL_REACHED),
        (
            {"noBetterReports": 2, "direction": "Maximize"},
            [(1, 0.5), (2, 0.4), (3, 0.5)],
            Reason.NO_IMPROVEMENT,
        ),
    ],
)
def test_patience_counts_each_step_once(
    wanted: dict[str, Any], values: list[tuple[int, float]], reason: Reason | None
) -> None:
    assert course(wanted, *values).reason == (reason.value if reason else None)


def test_what_was_decided_stays_decided() -> None:
    decided = course({"goal": "1"}, (1, 0.5))
    assert course({"goal": "1"}, (1, 0.5), (2, 7.0)) == decided


def test_another_metric_is_judged_anew() -> None:
    other = MetricStop.model_validate({"metric": "acc", "noBetterReports": 2})
    found = followed(other, course({"noBetterReports": 2}, (1, 3.0)), [Metric("acc", 0.5, 7)], NOW)
    assert (found.metric, found.best, found.step) == ("acc", 0.5, 7)
