"""The HPA that our scaling is compared with, beside what the real one does."""

import pytest

from bench.closed_loop.loop import Look
from bench.closed_loop.peers import Elastic, Fixed, Hpa
from spotrun_trainer.telemetry.meter import Recent


def look(now: float, training: int, busy: float, unready: int = 0, waits: float = 0.0) -> Look:
    return Look(
        now=now,
        training=training,
        unready=unready,
        placed=training + unready,
        waiting=0,
        world=1,
        steps_here=100,
        recent=Recent(1.0, busy, 1 - busy - waits, waits),
        remaining_steps=1000,
        offered=16,
        usd_per_hour=10.0,
        life_seconds=None,
    )


@pytest.mark.parametrize(
    ("training", "unready", "busy", "wanted"),
    [
        (4, 0, 0.70, 4),
        (4, 0, 0.76, 4),  # within the tolerance of a tenth
        (4, 0, 0.64, 4),
        (4, 0, 1.00, 6),  # ceil(4 x 1 / 0.7)
        (4, 0, 0.35, 4),  # not before five minutes agree
        (1, 0, 1.00, 2),
        (8, 0, 1.00, 12),
        (12, 0, 1.00, 16),  # no more than the largest size
        (4, 2, 1.00, 4),  # of six the idle joining workers leave a ratio within the tolerance
        (4, 1, 1.00, 6),
    ],
)
def test_hpa_wants_what_the_controller_manager_would(
    training: int, unready: int, busy: float, wanted: int
) -> None:
    hpa = Hpa(1, 16, 3.8, start=training)
    assert hpa.wanted(look(0.0, training, busy, unready)) == wanted


def test_hpa_grows_by_no_more_than_four_or_as_many_as_there_are() -> None:
    hpa = Hpa(1, 64, 3.8, start=2, target=0.1)
    grown = [hpa.wanted(look(15.0 * tick, 2, 1.0)) for tick in range(4)]
    assert grown == [6, 12, 20, 20]


def test_hpa_shrinks_to_the_most_that_five_minutes_asked_for() -> None:
    hpa = Hpa(1, 16, 3.8, start=8)
    said = [hpa.wanted(look(60.0 * minute, 8, 0.7 if minute < 2 else 0.35)) for minute in range(9)]
    assert said == [8, 8, 8, 8, 8, 8, 4, 4, 4]


def test_hpa_of_nvml_takes_waiting_for_the_network_for_work() -> None:
    seen = look(400.0, 8, busy=0.35, waits=0.35)
    assert Hpa(1, 16, 3.8, start=8, sees_waiting=True).wanted(seen) == 8
    assert Hpa(1, 16, 3.8, start=8).wanted(seen) == 4


def test_a_gang_wants_all_or_none_and_who_is_elastic_always_all() -> None:
    scarce = look(0.0, 8, busy=1.0)
    assert [Fixed(size, 3.8).wanted(scarce) for size in (16, 17)] == [16, 0]
    assert Elastic(17, 3.8).wanted(scarce) == 17
