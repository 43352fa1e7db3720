"""What the scaling bench makes of its runs."""

from math import inf

import pytest

from bench.closed_loop.curves import LINEAR, Load
from bench.closed_loop.loop import Resize, Result
from bench.closed_loop.ours import Wishes
from bench.closed_loop.scenes import BY_DEFAULT, ON_DEMAND, Played, Scene
from bench.scaling import Row

WORTH = Wishes(hour_worth_usd=10.0)


def a_result(usd: float, hours: float, resizes: int = 0) -> Result:
    made = tuple(Resize(0.0, number, number + 1) for number in range(1, resizes + 1))
    return Result(usd, hours, made, changes=2, interruptions=0)


def a_row(wishes: Wishes, ours: list[Result], fixed: dict[int, list[Result]]) -> Row:
    scene = Scene("steady", Load.steady(LINEAR), ON_DEMAND, (wishes,))
    repeats = [
        Played(scene, {wishes: one}, {}, {size: results[n] for size, results in fixed.items()})
        for n, one in enumerate(ours)
    ]
    return Row(scene, wishes, repeats)


def test_the_best_fixed_size_is_one_size_for_all_repeats() -> None:
    fixed = {
        1: [a_result(100, 20), a_result(100, 20)],  # 300, 300
        2: [a_result(110, 10), a_result(110, 30)],  # 210, 410
        4: [a_result(150, 5), a_result(150, 5)],  # 200, 200
        8: [a_result(90, 5), a_result(120, inf)],  # never ends
    }
    row = a_row(WORTH, [a_result(160, 5), a_result(150, 4)], fixed)
    assert row.best_size == 4
    assert row.ratios == pytest.approx([210 / 200, 190 / 200])


def test_what_is_saved_is_saved_in_dollars() -> None:
    fixed = {1: [a_result(100, 20)], 4: [a_result(160, 5)]}
    row = a_row(BY_DEFAULT, [a_result(120, 9)], fixed)
    assert row.saved_percent(row.fixed(row.most)) == pytest.approx(25)
    assert row.name == "linear, on demand, by default"


def test_resizes_are_counted_against_the_changes_there_were() -> None:
    row = a_row(WORTH, [a_result(100, 5, resizes=2), a_result(100, 5, resizes=1)], {})
    assert row.resizes_per_change == pytest.approx(0.75)
