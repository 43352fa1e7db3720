from dataclasses import replace

import pytest

from spotrun.wire import Checkpoint, Failure, Progress, Report, Utilization
from spotrun_trainer.agent.conversation import CALM_SECONDS, is_due

SENT = Report(arrived=1, store_port=29_500, progress=Progress(1, 10))


@pytest.mark.parametrize(
    "changed",
    [
        replace(SENT, ready=True),
        replace(SENT, arrived=2),
        replace(SENT, failed=Failure(1, 1, "no")),
        replace(SENT, suspects=(1,)),
        replace(SENT, store_port=29_501),
        replace(SENT, committed=Checkpoint("step-10.g1", 10)),
        replace(SENT, completed=True),
        replace(SENT, in_process=True),
    ],
)
def test_what_the_operator_acts_upon_is_reported_at_once(changed: Report) -> None:
    assert is_due(changed, SENT, age_seconds=0.0)


@pytest.mark.parametrize(
    "changed",
    [replace(SENT, progress=Progress(1, 11)), replace(SENT, utilization=Utilization(gpu=0.5))],
)
def test_mere_progress_can_wait(changed: Report) -> None:
    assert not is_due(changed, SENT, age_seconds=CALM_SECONDS - 0.1)
    assert is_due(changed, SENT, age_seconds=CALM_SECONDS)


def test_nothing_new_is_no_report() -> None:
    assert not is_due(SENT, SENT, age_seconds=1e9)


def test_what_may_have_been_lost_is_reported_again() -> None:
    assert is_due(SENT, None, age_seconds=0.0)
