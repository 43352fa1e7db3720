"""How many microbatches each copy gets, by how long it takes for one."""

from itertools import pairwise, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.data.order.sharding import deal
from spotrun_trainer.loop.dealing import (
    EVERY_COMMITS,
    Dealing,
    deal_anew,
    described,
    fastest,
    slowest,
)

SECONDS = st.floats(0.01, 100.0)
COPIES = st.lists(SECONDS, min_size=1, max_size=12)


def even(microbatches: int, copies: int) -> tuple[int, ...]:
    return tuple(len(deal(microbatches, copies, copy)) for copy in range(copies))


def free(seconds: list[float], microbatches: int) -> tuple[int, ...]:
    """The best numbers without bounds but one microbatch each."""
    copies = len(seconds)
    return fastest(seconds, microbatches, [1] * copies, [microbatches] * copies)


@pytest.mark.parametrize(
    ("why", "present", "seconds", "expected"),
    [
        ("one of three takes twice as long", (4, 4, 4), [1, 1, 2], (5, 5, 2)),
        ("there are enough of them to divide exactly", (10, 10, 10), [1, 1, 2], (12, 12, 6)),
        ("all are equally fast", (4, 4, 3), [1, 1, 1], (4, 4, 3)),
        ("one is a little slower, too little for a whole one", (4, 4, 4), [1, 1, 1.1], (4, 4, 4)),
        ("a change would save 4 %", (50, 50), [1, 1.08], (50, 50)),
        ("a change saves 9 %", (50, 50), [1, 1.2], (55, 45)),
        ("the slow one is as fast as the others again", (5, 5, 2), [1, 1, 1], (4, 4, 4)),
        ("nothing is known", (4, 4, 4), [0, 0, 0], (4, 4, 4)),
        ("who has joined counts as typical", (4, 4, 4), [1, 2, 0], (6, 3, 3)),
        ("nobody's number more than halves", (8, 8, 8), [1, 1, 10], (10, 10, 4)),
        ("nobody's number more than doubles", (8, 8, 8), [1, 10, 10], (16, 4, 4)),
        ("each keeps one at least", (1, 1, 1), [1, 1, 10], (1, 1, 1)),
        ("and has one for that", (2, 2), [1, 100], (3, 1)),
        ("some have none, for there are too few", (1, 1, 0), [1, 2, 3], (1, 1, 0)),
        ("one copy alone", (7,), [3], (7,)),
    ],
)
def test_microbatches_are_dealt_by_speed(
    why: str, present: tuple[int, ...], seconds: list[float], expected: tuple[int, ...]
) -> None:
    assert deal_anew(present, seconds) == expected, why


@given(COPIES, st.integers(0, 60), st.randoms(use_true_random=False))
def test_each_is_dealt_once_and_a_change_is_bounded_and_pays(
    seconds: list[float], more: int, random: Random
) -> None:
    present = [1] * len(seconds)
    for _ in range(more):
        present[random.randrange(len(present))] += 1

    dealt = deal_anew(present, seconds)

    assert sum(dealt) == sum(present)
    assert all(one >= 1 for one in dealt)
    assert all(
        (before + 1) // 2 <= one <= 2 * before for before, one in zip(present, dealt, strict=True)
    )
    assert dealt == tuple(present) or slowest(dealt, seconds) < 0.95 * slowest(present, seconds)


@given(st.lists(st.sampled_from([0.3, 0.5, 1.0, 1.7]), min_size=1, max_size=3), st.integers(0, 6))
def test_nothing_is_done_sooner(seconds: list[float], more: int) -> None:
    copies, microbatches = len(seconds), len(seconds) + more
    ways = product(range(1, microbatches + 1), repeat=copies)

    best = min(slowest(way, seconds) for way in ways if sum(way) == microbatches)

    assert slowest(free(seconds, microbatches), seconds) == best


@given(SECONDS, st.integers(1, 12), st.integers(0, 100))
def test_equal_copies_get_what_they_get_anyway(each: float, copies: int, more: int) -> None:
    assert free([each] * copies, copies + more) == even(copies + more, copies)


@given(COPIES, st.integers(0, 100))
def test_who_is_faster_gets_no_less(seconds: list[float], more: int) -> None:
    dealt = free(seconds, len(seconds) + more)
    by_speed = [dealt[copy] for copy in sorted(range(len(seconds)), key=lambda one: seconds[one])]

    assert all(faster >= slower for faster, slower in pairwise(by_speed))


@given(COPIES, st.integers(0, 200), st.randoms(use_true_random=False))
def test_noise_changes_nothing(seconds: list[float], more: int, random: Random) -> None:
    dealt = free(seconds, len(seconds) + more)
    for _ in range(20):
        noisy = [each * random.uniform(0.975, 1.025) for each in seconds]

        assert deal_anew(dealt, noisy) == dealt


def told(dealing: Dealing, seconds: list[float], commits: int = EVERY_COMMITS) -> None:
    for _ in range(commits):
        dealing.note(seconds)


def test_a_world_begins_evenly_and_is_dealt_anew_after_its_first_commit() -> None:
    dealing = Dealing()
    dealing.enter(3, is_logged=False)
    assert dealing.of_step(12) == ()
    dealing.note([1.0, 1.0, 2.0])
    assert dealing.of_step(12) == (5, 5, 2)

    dealing.enter(2, is_logged=False)

    assert dealing.of_step(12) == ()


def test_it_is_decided_now_and_then_only() -> None:
    dealing = Dealing()
    dealing.enter(2, is_logged=False)
    dealing.of_step(12)
    told(dealing, [1.0, 1.0])
    assert dealing.of_step(12) == ()
    dealing.note([1.0, 2.0])
    assert dealing.of_step(12) == (8, 4)
    told(dealing, [1.0, 1.0], EVERY_COMMITS - 1)
    assert dealing.of_step(12) == (8, 4)
    dealing.note([1.0, 1.0])
    assert dealing.of_step(12) == (6, 6)


def test_a_copy_is_as_slow_as_the_slowest_of_its_processes() -> None:
    dealing = Dealing()
    dealing.enter(2, is_logged=False)
    dealing.of_step(12)
    dealing.note([1.0, 1.0, 1.0, 2.0])
    assert dealing.of_step(12) == (8, 4)


def test_who_receives_the_state_is_left_out_as_ever() -> None:
    dealing = Dealing()
    dealing.enter(2, is_logged=False)
    dealing.of_step(12)
    dealing.note([1.0, 2.0])
    assert dealing.of_step(12, frozenset({1})) == ()


def test_another_number_of_microbatches_begins_evenly() -> None:
    dealing = Dealing()
    dealing.enter(2, is_logged=False)
    dealing.of_step(12)
    dealing.note([1.0, 2.0])
    assert dealing.of_step(24) == ()
    told(dealing, [1.0, 2.0])
    assert dealing.of_step(24) == (16, 8)


def test_fewer_microbatches_than_copies_stay_as_they_are() -> None:
    dealing = Dealing()
    dealing.enter(3, is_logged=False)
    dealing.of_step(2)
    told(dealing, [1.0, 2.0, 0.5])
    assert dealing.of_step(2) == ()


def test_the_log_has_the_numbers_of_few_copies_and_the_range_of_many() -> None:
    few = described([5, 5, 2], [0.2, 0.0, 0.4])
    assert few == "5, 5, 2 (time for one, relative to the fastest: 1.00, not known, 2.00)"
    many = described([5] * 19 + [2], [0.2] * 19 + [0.5])
    assert many.startswith("from 2 to 5 each (copy 19 is the slowest: for one it takes 2.50 times")
