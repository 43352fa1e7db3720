"""The virtual job that scaling is measured on: what it computes, waits for, costs and loses."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from bench.closed_loop import markets
from bench.closed_loop.curves import AMDAHL, COMMUNICATION, INPUT, LINEAR, Curve, Load
from bench.closed_loop.loop import Look, Result, Task, play
from bench.closed_loop.markets import Place
from bench.closed_loop.peers import Elastic, Fixed
from spotrun.api.capacitypool import Capacity
from spotrun.money.data.builtin_tables import built_in_tables
from spotrun.money.price_rows import Offering
from spotrun.simulate.scenario import Rules

RULES = Rules()
STALL = 4.0
LONG_STEPS = replace(LINEAR, microbatch_seconds=2.5)  # 10 s with 16 workers


@dataclass
class Says:
    """Wants so many from so many seconds on."""

    said: Sequence[tuple[float, int]]
    stall_seconds: float = STALL
    keeps_state: bool = True
    is_gang: bool = False
    every_seconds: float = 15.0

    def wanted(self, look: Look) -> int:
        return next(size for since, size in reversed(self.said) if since <= look.now)


@pytest.mark.parametrize(
    ("curve", "workers", "compute", "data", "communicate"),
    [
        (LINEAR, 1, 16.0, 0.0, 0.0),
        (LINEAR, 16, 1.0, 0.0, 0.0),
        (LINEAR, 15, 1.25, 0.0, 0.0),  # 64 microbatches: as long as with 13
        (AMDAHL, 16, 1.75, 0.0, 0.0),
        (COMMUNICATION, 4, 4.0, 0.0, 0.0),  # 1.59 s of it behind 2 s of computing
        (COMMUNICATION, 16, 1.0, 0.0, 1.825),
        (INPUT, 4, 4.0, 0.0, 0.0),
        (INPUT, 16, 1.0, 2.2, 0.0),
    ],
)
def test_a_step_takes_what_its_curve_says(
    curve: Curve, workers: int, compute: float, data: float, communicate: float
) -> None:
    assert curve.step(workers) == pytest.approx((compute, data, communicate, 0.0))


def test_a_load_becomes_another_one_at_the_half() -> None:
    load = Load.changing(LINEAR, INPUT)
    assert [load.at(share) for share in (0.0, 0.49, 0.5, 1.0)] == [LINEAR, LINEAR, INPUT, INPUT]


@pytest.mark.parametrize("size", [1, 4, 16])
def test_a_fixed_size_is_paid_for_from_its_nodes_first_second_to_its_last(size: int) -> None:
    result = run(Fixed(size, STALL))
    computed = 900 * LINEAR.step(size).seconds
    changeover = RULES.changeover_seconds + STALL
    assert result.hours * 3600 == pytest.approx(changeover + computed, rel=0.03)
    assert result.usd == pytest.approx(size * result.hours * 10.315679)
    assert result.resizes == ()


def test_joining_workers_are_paid_before_they_train_and_cost_the_others_a_stall() -> None:
    calm, grown = run(Fixed(4, STALL)), run(Says([(0.0, 4), (3600.0, 8)]), steps=900)
    assert calm.hours * 3600 == pytest.approx(600 + STALL + 900 * 4, rel=0.03)
    trained_by_4 = (3600.0 + RULES.changeover_seconds - 600 - STALL) / 4.0
    left = (900 - trained_by_4) * 2.0
    end = 3600.0 + RULES.changeover_seconds + STALL + left
    assert grown.hours * 3600 == pytest.approx(end, rel=0.03)
    paid_hours = (4 * end + 4 * (end - 3600.0)) / 3600
    assert grown.usd == pytest.approx(paid_hours * 10.315679, rel=0.03)
    assert [(one.before, one.after) for one in grown.resizes] == [(4, 8)]


def test_who_is_sent_away_is_paid_until_the_step_is_done() -> None:
    result = run(Says([(0.0, 8), (1200.0, 2)]), steps=900)
    alone = (900 - (1200 - 600 - STALL) / 2.0) * 8.0
    end = 1200 + STALL + alone
    assert result.hours * 3600 == pytest.approx(end, rel=0.03)
    assert result.usd == pytest.approx((2 * end + 6 * 1200) / 3600 * 10.315679, rel=0.03)


def test_a_gang_waits_and_pays_nothing_while_it_is_not_to_be_had() -> None:
    task, place = Task(Load.steady(LONG_STEPS), total_steps=2_160), markets.steps(RULES)
    result = play(task, place, Fixed(16, STALL), RULES, seed=1)
    assert result.interruptions == 6  # of 16 nodes 10 are left, and given back
    assert 12 < result.hours < 16  # of which it had its nodes for four, and then for two and more
    assert result.usd == pytest.approx(16 * (result.hours - 8) * 10.315679, rel=0.01)


def test_who_keeps_the_state_repeats_no_step_after_a_loss() -> None:
    task, place = Task(Load.steady(LONG_STEPS), total_steps=1_500), markets.steps(RULES)
    kept, lost = (play(task, place, one, RULES, 1) for one in (Says([(0.0, 16)]), Elastic(16, 0)))
    assert kept.interruptions == lost.interruptions == 6  # 10 nodes are left after four hours
    assert kept.changes == 2  # that, and the start
    most = RULES.checkpoint_seconds * LONG_STEPS.step(10).seconds / LONG_STEPS.step(16).seconds
    assert 0 < lost.hours - kept.hours < most / 3600


def test_the_price_on_demand_is_that_of_the_built_in_table() -> None:
    node = Offering("a3-highgpu-8g", Capacity.ON_DEMAND, region="us-central1")
    quotes = [table.look_up(node) for table in built_in_tables()]
    (whole,) = [quote.usd_per_hour.decimal for quote in quotes if quote is not None]
    per_gpu = markets.on_demand(RULES).pool.offer(0.0).usd_per_hour
    assert abs(whole / 8 - per_gpu) < 0.001


def run(sizer: Fixed | Says, steps: int = 900) -> Result:
    place: Place = markets.on_demand(RULES)
    return play(Task(Load.steady(LINEAR), total_steps=steps), place, sizer, RULES, seed=1)
