import math
from collections import Counter
from dataclasses import replace

import pytest

from spotrun.search import (
    Asha,
    Direction,
    Hyperband,
    Judge,
    Median,
    NoPruning,
    Outcome,
    Pruning,
    Report,
    Trial,
    pruning,
    without_repeats,
)
from tests.support.search.spaces import a_trial

DOWN, UP = Direction.MINIMIZE, Direction.MAXIMIZE


def running(number: int, *values: float) -> Trial:
    return a_trial(number, *values, outcome=Outcome.RUNNING, objective=None)


def is_stopped(rule: Pruning, trial: Trial, *others: Trial, direction: Direction = DOWN) -> bool:
    return Judge(rule, [trial, *others], direction).why_stopped(trial) is not None


# Not symmetric: the median of the second reports is 3, their mean 24.4.
COMPLETE = tuple(a_trial(n, 200.0, last) for n, last in enumerate((1.0, 2.0, 3.0, 16.0, 100.0)))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((200.0, 3.0), False),
        ((200.0, 3.1), True),
        ((2.9, 50.0), False),  # its best until there counts
        ((200.1,), True),
        ((200.0,), False),
        ((), False),
        ((200.0, math.nan), True),
    ],
)
def test_the_best_so_far_is_compared_with_the_median(
    values: tuple[float, ...], expected: bool
) -> None:
    assert is_stopped(Median(), running(9, *values), *COMPLETE) is expected


def test_the_median_of_a_maximum_is_the_other_way_round() -> None:
    assert is_stopped(Median(), running(9, 1.0, 2.9), *COMPLETE, direction=UP)
    assert not is_stopped(Median(), running(9, 1.0, 200.0), *COMPLETE, direction=UP)


def test_nobody_is_stopped_before_enough_have_trained_to_their_end() -> None:
    bad = running(9, 999.0, 999.0)
    assert is_stopped(Median(), bad, *COMPLETE)
    assert not is_stopped(Median(startup_trials=6), bad, *COMPLETE)
    pruned = [replace(one, outcome=Outcome.PRUNED) for one in COMPLETE[:1]]
    assert not is_stopped(Median(), bad, *pruned, *COMPLETE[1:])
    assert not is_stopped(Median(warmup_steps=201), bad, *COMPLETE)


def test_trials_that_diverged_are_left_out_of_the_median() -> None:
    others = [*COMPLETE, a_trial(5, math.nan, math.nan), a_trial(6, math.inf, math.inf)]
    assert not is_stopped(Median(), running(9, 200.0, 3.0), *others)


def test_a_trial_is_compared_at_its_own_step_whatever_others_report() -> None:
    coarse = [replace(one, reports=(Report(150, 5.0), Report(1000, 0.0))) for one in COMPLETE]
    assert is_stopped(Median(), running(9, 6.0, 6.0), *coarse)  # at 200 the others had 5
    assert not is_stopped(Median(), running(9, 6.0), *coarse)  # and at 100 nothing


ASHA = Asha(grace_steps=100, max_steps=900, reduction=3)


def test_the_rungs_are_at_powers_of_the_reduction() -> None:
    assert ASHA.rungs == (100, 300)
    assert Asha(1, 256, 4).rungs == (1, 4, 16, 64)


@pytest.mark.parametrize(
    ("others", "own", "expected"),
    [
        ((), 5.0, False),  # the first to come there
        ((4.0,), 5.0, True),
        ((6.0,), 5.0, False),
        ((1.0, 2.0, 6.0, 7.0, 8.0), 2.0, False),  # two of six go on
        ((1.0, 2.0, 6.0, 7.0, 8.0), 2.1, True),
        ((1.0, 6.0, 7.0), 2.0, False),  # and two of four
        ((1.0, 1.5, 7.0), 2.0, True),
        ((math.nan, math.nan, math.nan), 9.0, False),
        ((1.0, 2.0), math.nan, True),
    ],
)
def test_the_best_share_goes_on_at_a_rung(
    others: tuple[float, ...], own: float, expected: bool
) -> None:
    rivals = [running(n, value) for n, value in enumerate(others)]
    assert is_stopped(ASHA, running(9, own), *rivals) is expected


def test_a_trial_is_judged_at_the_highest_rung_that_it_has_reached() -> None:
    rivals = [running(n, 1.0) for n in range(5)]
    assert is_stopped(ASHA, running(9, 5.0, 0.0), *rivals)  # at rung 100 it had 5
    assert not is_stopped(ASHA, running(9, 5.0, 4.0, 3.0), *rivals)  # nobody else was at 300


def test_between_rungs_the_first_report_from_the_rung_on_counts() -> None:
    late = replace(running(9), reports=(Report(90, 0.0), Report(120, 5.0), Report(290, 0.0)))
    assert is_stopped(ASHA, late, running(1, 4.0))


def test_a_trial_is_judged_once_at_each_rung() -> None:
    better = [running(n, 1.0) for n in range(5)]
    went_on = replace(running(9, 5.0), rung=100)
    assert not is_stopped(ASHA, went_on, *better)
    at_the_next = replace(running(9, 5.0, 4.0, 3.0), rung=100)
    assert is_stopped(ASHA, at_the_next, *(running(n, 1.0, 1.0, 1.0) for n in range(5)))


@pytest.mark.parametrize(
    ("rule", "values", "rung"),
    [(ASHA, (), 0), (ASHA, (1.0,), 100), (ASHA, (1.0,) * 4, 300), (Median(), (1.0,), 0)],
)
def test_the_rung_of_a_trial_is_the_highest_that_it_has_reached(
    rule: Pruning, values: tuple[float, ...], rung: int
) -> None:
    trial = running(9, *values)
    assert Judge(rule, [trial], DOWN).rung_of(trial) == rung


def test_hyperband_compares_within_brackets_of_the_published_sizes() -> None:
    rule = Hyperband(grace_steps=100, max_steps=8100, reduction=3)
    assert [getattr(one, "grace_steps", None) for one in rule.brackets] == [
        *(100, 300, 900, 2700),
        None,
    ]
    counts = Counter(rule.bracket_of(number) for number in range(4000))
    published = {0: 81, 1: 34, 2: 15, 3: 8, 4: 5}  # of Hyperband with R = 81, Li et al. 2018
    for bracket, size in published.items():
        assert counts[bracket] / 4000 == pytest.approx(size / 143, abs=0.02)
    first = [n for n in range(30) if rule.bracket_of(n) == 0]
    second = [n for n in range(30) if rule.bracket_of(n) == 1]
    bad = running(first[0], 9.0, 9.0, 9.0)
    assert is_stopped(rule, bad, running(first[1], 1.0, 1.0, 1.0))
    assert not is_stopped(rule, bad, running(second[0], 1.0, 1.0, 1.0))


def test_without_pruning_nobody_is_stopped() -> None:
    assert not is_stopped(NoPruning(), running(9, 999.0), *COMPLETE)


def test_a_step_that_is_done_again_counts_once() -> None:
    reports = (Report(1, 5.0), Report(2, 4.0), Report(1, 9.0), Report(2, 8.0), Report(3, 3.0))
    assert without_repeats(reports) == (Report(1, 5.0), Report(2, 4.0), Report(3, 3.0))


@pytest.mark.parametrize(
    ("grace", "most", "reduction", "words"),
    [
        (100, 900, 1, "stops no trial"),
        (0, 900, 3, "graceSteps of at least 1"),
        (9, 9, 3, "below maxSteps"),
    ],
)
def test_what_is_wrong_is_said(grace: int, most: int, reduction: int, words: str) -> None:
    for rule in (Asha, Hyperband):
        with pytest.raises(ValueError, match=words):
            rule(grace, most, reduction)


def test_the_reason_can_be_read() -> None:
    last = running(9, 5.0)
    found = Judge(ASHA, [last, running(1, 4.0), running(2, 4.5)], DOWN).why_stopped(last)
    assert found is not None
    assert found.why == (
        "at step 100 it had 5, not among the best 1 of 3 trials that have reached it so far"
    )
    last = running(9, 200.0, 50.0)
    found = Judge(Median(), [last, *COMPLETE], DOWN).why_stopped(last)
    assert found is not None
    assert found.why == (
        "its best until step 200 was 50, worse than 3, the median of 5 complete trials at that step"
    )


@pytest.mark.parametrize(("direction", "diverged"), [(DOWN, -math.inf), (UP, math.inf)])
def test_a_trial_that_diverged_to_the_better_side_stops_no_other(
    direction: Direction, diverged: float
) -> None:
    others = [replace(a_trial(n, diverged), outcome=Outcome.FAILED) for n in range(2)]
    asha = Asha(grace_steps=1, max_steps=10_000)
    assert not is_stopped(asha, running(9, 0.5), *others, direction=direction)


def test_brackets_are_drawn_once_for_each_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Hyperband(100, 100_000, seed=12345)
    before = [rule.bracket_of(number) for number in range(9)]
    monkeypatch.setattr(pruning, "draw", lambda *_: 1 / 0)
    assert [rule.bracket_of(number) for number in range(9)] == before
