"""Looks at one size up: when one is taken, what is concluded from it, and that they become rare."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from spotrun.api.names import ScalingReason
from spotrun.policies.scaling.facts import Cap, SizingFacts
from spotrun.policies.scaling.size_decision import choose_size
from spotrun.state.stored.scaling import NO_SCALING, ScalingState
from tests.support.jobs.scaling_lives import Curve, Life, cached, facts_at, step_at, stored

TO_16 = range(1, 17)
WORTH: dict[str, Any] = {"hour_worth_usd": 8.0, "usd_per_hour": 1.0, "min_efficiency": 0.1}
WORTH |= {"microbatches": 64}
HOURS = 60  # minutes


def settled(curve: Curve, **facts: Any) -> Life:
    """At the best size, at which nobody waits; eight workers have waited for their data."""
    life = Life(curve, TO_16, 4, {**WORTH, **facts})
    life.live(60)
    return life


def due(**facts: Any) -> SizingFacts:
    """What is known at five workers at which it is time for a look, but for these."""
    return facts_at(stored, 5, TO_16, **{**WORTH, "up_after_seconds": 0.0, **facts})


def looked(memory: ScalingState, facts: SizingFacts, life: Life, hours: float = 5) -> bool:
    choice = choose_size(facts, memory, life.now + timedelta(hours=hours))
    return choice.reason is ScalingReason.PROBING


def test_a_look_finds_out_that_nobody_waits_any_more() -> None:
    life = settled(stored)
    assert life.had == [8, 5]
    life.curve = cached  # five workers are as fast as before, so nothing shows
    life.live(4 * HOURS)
    assert (life.had, life.reasons[2]) == ([8, 5, 6, 11, 16], "Probing")
    assert [one.workers for one in life.memory.measured] == [4, 5, 6, 11, 16]  # 8 is void


def test_a_look_during_which_it_ends_finds_it_out_too() -> None:
    """The first windows after that are of both; then a step is as short as nobody expected."""
    life = settled(stored)
    while life.size != 6:
        life.live(1)
    life.live(4)
    mixed = step_at(stored, 6)
    life.curve = lambda _: (2.75, mixed.seconds - 2.95, 0.0)
    life.live(2)
    life.curve = cached
    life.live(60)
    assert life.had[-2:] == [11, 16]


def test_looks_in_vain_are_taken_back_at_once_and_become_rarer() -> None:
    life = settled(stored, min_efficiency=0.0)
    life.live(18 * HOURS)
    times, lasted = life.had_at[2::2], zip(life.had_at[2::2], life.had_at[3::2], strict=False)
    assert life.had[2:] == [6, 5] * len(times)
    assert len(times) >= 3
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses[0] > timedelta(hours=6)
    assert all(after > 1.2 * before for before, after in pairwise(pauses))
    assert all(back - there < timedelta(minutes=10) for there, back in lasted)


def test_a_job_that_has_no_price_of_time_is_looked_at_too() -> None:
    life = Life(stored, TO_16, 4, {"microbatches": 64, "usd_per_hour": 1.0})
    life.live(60)
    assert life.had == [8, 5]
    life.live(8 * HOURS)
    assert life.had[2:4] == [6, 5]
    assert life.reasons[2:4] == ["Probing", "EfficiencyLow"]
    assert life.live(1).reason is ScalingReason.TRIED_BEFORE


@pytest.mark.parametrize(
    ("facts", "is_due"),
    [
        pytest.param({}, True, id="it is time"),
        pytest.param({"remaining_samples": 512.0 * 600}, False, id="the end is near"),
        pytest.param({"life_seconds": 1200.0}, False, id="the market soon takes workers away"),
        pytest.param({"hour_worth_usd": 0.1}, False, id="time is worth little"),
        pytest.param({"changeover_seconds": 7200.0}, False, id="joining workers are paid for long"),
        pytest.param({"caps": (Cap(5, ScalingReason.NO_CAPACITY),)}, False, id="no more to be had"),
        pytest.param({"caps": (Cap(6, ScalingReason.BUDGET_LIMIT),)}, False, id="little to be won"),
        pytest.param({"sizes": (1, 4, 5, 7, 8)}, True, id="the next size that is allowed"),
    ],
)
def test_a_look_is_taken_if_enough_is_at_stake(facts: dict[str, Any], is_due: bool) -> None:
    life = settled(stored)
    made = replace(due(), **facts)
    assert looked(life.memory, made, life) is is_due


def test_no_look_is_taken_soon_after_the_last_change() -> None:
    life = settled(stored)
    assert not looked(life.memory, due(), life, hours=0.5)


def test_where_waiting_shows_no_look_is_needed() -> None:
    """Six workers wait a little: were their data there sooner, a step would be shorter."""
    life = Life(stored, (1, 2, 4, 6, 8, 16), 4, WORTH)
    life.live(60)
    assert life.size == 6
    life.live(8 * HOURS)
    assert "Probing" not in life.reasons


def test_agents_that_tell_no_parts_are_not_asked_to_look() -> None:
    def bare(curve: Curve, size: int) -> SizingFacts:
        made = facts_at(curve, size, TO_16, **WORTH, up_after_seconds=0.0, gauges=())
        return replace(made, step=replace(step_at(curve, size), compute=None, data=None))

    life = Life(stored, TO_16, 5, WORTH)
    memory = choose_size(bare(stored, 8), NO_SCALING, life.now).memory
    memory = choose_size(bare(stored, 5), memory, life.now).memory
    assert not looked(memory, bare(stored, 5), life)


def test_what_hides_at_this_size_may_be_communication() -> None:
    """Beside half of the computing: so up to five workers show nothing of it."""

    def hiding(size: int) -> tuple[float, float, float]:
        return 16 / size, 0.0, max(2 * (size - 1) / size - 8 / size, 0.0)

    life = settled(hiding, microbatches=None)
    life.live(3 * HOURS)
    assert "Probing" in life.reasons
