from dataclasses import replace

import pytest

from spotrun.api.names import ScalingReason
from spotrun.api.spec.workers import TargetResource
from spotrun.policies.scaling.facts import Gauge
from spotrun.policies.scaling.size_decision import choose_size
from spotrun.state.stored.scaling import NO_SCALING
from tests.support.jobs.builders import NOW
from tests.support.jobs.scaling_lives import facts_at, linear, step_at

TO_16 = range(1, 17)


def test_fewer_workers_that_save_nothing_are_only_slower() -> None:
    """One process per worker that keeps a third of its CPUs busy: with half as many it is worse."""
    idle = (Gauge(TargetResource.CPU, 0.7, reported=(0.3,) * 4),)
    choice = choose_size(
        facts_at(linear, 4, TO_16, gauges=idle, down_after_seconds=0.0), NO_SCALING, NOW
    )
    assert (choice.size, choice.reason) == (4, ScalingReason.NO_BENEFIT)


@pytest.mark.parametrize(("left_seconds", "size"), [(60.0, 4), (86_400.0, 8)])
def test_a_growth_has_to_pay_for_itself_before_the_end(left_seconds: float, size: int) -> None:
    facts = facts_at(linear, 4, TO_16, up_after_seconds=0.0)
    left = left_seconds * step_at(linear, 4).samples_per_second
    choice = choose_size(replace(facts, remaining_samples=left), NO_SCALING, NOW)
    assert choice.size == size
    assert (choice.reason is ScalingReason.NOT_REPAID) is (size == 4)
