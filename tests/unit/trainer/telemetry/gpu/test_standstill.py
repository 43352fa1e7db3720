"""A worker with a faulty GPU makes no step for too long."""

import pytest

from spotrun_trainer.process.progress_report import TrainerProgress
from spotrun_trainer.telemetry.gpu.standstill import Standstill

AT_STEP_7 = TrainerProgress(world_number=1, step=7, in_process=True)


@pytest.mark.parametrize(
    ("step_seconds", "seconds", "is_too_long"),
    [(None, 30.0, False), (None, 30.1, True), (1.0, 30.1, True), (60.0, 180.0, False)],
)
def test_three_steps_or_half_a_minute_are_too_long(
    step_seconds: float | None, seconds: float, *, is_too_long: bool
) -> None:
    told = TrainerProgress(world_number=1, step=7, in_process=True, step_seconds=step_seconds)
    standstill = Standstill()
    assert not standstill.is_too_long(told, 1000.0)
    assert standstill.is_too_long(told, 1000.0 + seconds) is is_too_long


@pytest.mark.parametrize(
    "later",
    [
        TrainerProgress(world_number=1, step=8, in_process=True),
        TrainerProgress(world_number=1, step=7, signs=1, in_process=True),
        TrainerProgress(world_number=2, step=7, in_process=True),
    ],
)
def test_a_sign_of_life_begins_it_anew(later: TrainerProgress) -> None:
    standstill = Standstill()
    standstill.is_too_long(AT_STEP_7, 0.0)
    assert not standstill.is_too_long(later, 31.0)
    assert standstill.is_too_long(later, 62.0)


def test_of_a_script_that_reports_no_steps_nothing_is_known() -> None:
    standstill = Standstill()
    standstill.is_too_long(TrainerProgress(), 0.0)
    assert not standstill.is_too_long(TrainerProgress(), 1e6)
