from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.market import POOLS, NewNode
from demo.node_actions import Done, Join, Notice, PowerCut, TakeBack
from demo.scene import Scene, Step
from demo.summary import (
    Figures,
    Loss,
    Sighting,
    Stall,
    figures,
    find_repeats,
    find_stalls,
    report,
)

NOTICE, CUT = Notice("spot-b-1"), PowerCut("spot-a-1")
DONE = (
    Done(4.0, NOTICE),
    Done(5.0, Join(NewNode("spot-a-2", POOLS[0]))),
    Done(6.0, TakeBack("spot-b-1")),
    Done(20.0, CUT),
)
END = Scene(40.0, "Succeeded", "Completed", "the training is complete", world=4, total_steps=60)


def lines(*moments: tuple[float, int]) -> list[Sighting]:
    return [(at, Step(number)) for at, number in moments]


def steadily(start: float, step: int, count: int) -> list[Sighting]:
    return lines(*((start + 0.5 * i, step + i) for i in range(count)))


STEPS = [
    *steadily(1.0, 1, 10),  # until 5.5, step 10
    *steadily(9.5, 8, 20),  # 3.5 s beyond the usual; 8, 9 and 10 again; until 19, step 27
    *steadily(23.0, 21, 10),  # 3.5 s; 7 again; until 27.5, step 30
    *steadily(30.0, 31, 30),  # 2 s; until 44.5, step 60
]


def test_stalls_are_pauses_much_longer_than_usual() -> None:
    assert [Stall(9.5, 3.5), Stall(23.0, 3.5), Stall(30.0, 2.0)] == find_stalls(STEPS)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([], id="nothing was seen"),
        pytest.param(lines((1.0, 1)), id="one line"),
        pytest.param(steadily(1.0, 1, 20), id="a steady log"),
        pytest.param([*steadily(0.0, 1, 9), *lines((5.4, 10))], id="a second, but not one more"),
    ],
)
def test_a_log_without_long_pauses_has_no_stalls(steps: list[Sighting]) -> None:
    assert find_stalls(steps) == []


def test_repeats_are_steps_whose_numbers_come_again() -> None:
    assert find_repeats(STEPS) == [(9.5, 3), (23.0, 7)]


@given(st.lists(st.tuples(st.floats(0.01, 100), st.integers(1, 50)), max_size=50))
def test_stalls_are_never_longer_than_the_log(gaps: list[tuple[float, int]]) -> None:
    steps, at = [], 0.0
    for gap, number in gaps:
        at += gap
        steps.append((at, Step(number)))
    stalls = find_stalls(steps)
    assert all(stall.seconds > 0 for stall in stalls)
    assert sum(stall.seconds for stall in stalls) <= at


def test_stalls_and_repeats_belong_to_the_event_before_them() -> None:
    expected = Figures(
        job_seconds=40.0,
        first_step_seconds=1.0,
        last_step=60,
        worlds=4,
        losses=(
            Loss(NOTICE, (Stall(9.5, 3.5),), 3),
            Loss(CUT, (Stall(23.0, 3.5), Stall(30.0, 2.0)), 7),
        ),
        steps_again=10,
    )
    assert expected == figures(END, STEPS, DONE)


def test_the_summary_says_how_it_was_measured() -> None:
    told = "\n".join(report(END, figures(END, STEPS, DONE)))
    assert "Succeeded: the training is complete" in told
    assert "60 of 60; 10 were lost and done again" in told
    assert "stalled 3.5 s; 3 steps done again" in told
    assert "stalled 3.5 + 2.0 = 5.5 s; 7 steps done again" in told
    assert "not metered yet" in told
    assert "How it was measured: " in told


@pytest.mark.parametrize(
    ("scene", "expected"),
    [
        (replace(END, interruptions=1), "worlds      4, after one worker was taken away"),
        (replace(END, interruptions=2), "worlds      4, after 2 workers were taken away"),
        (replace(END, usd="0.04"), "cost        $0.04 paid, at made-up prices"),
        (replace(END, usd="0.04", saved_usd="0.01"), "$0.04 paid, $0.01 saved, at made-up"),
        (
            replace(END, usd="0.04", saved_usd="-0.01"),
            "$0.04 paid, $0.01 more than the same useful work on demand, at made-up prices",
        ),
    ],
)
def test_the_summary_says_what_it_took(scene: Scene, expected: str) -> None:
    assert expected in "\n".join(report(scene, figures(scene, STEPS, DONE)))


def test_a_job_without_a_step_has_a_summary() -> None:
    scene = Scene(9.0, "Failed", "TemplateRefused", "Kubernetes refuses the workers")
    told = report(scene, figures(scene, [], ()))
    assert told[0] == "Failed: Kubernetes refuses the workers"
    assert "  steps       0; 0 were lost and done again" in told
