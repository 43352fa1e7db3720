import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typing_extensions import override

from spotrun.wire import Answer, Checkpoint, Failure, Progress, Report, Utilization
from spotrun_trainer.agent.operator_threads import (
    BEHIND_SECONDS,
    CALM_SECONDS,
    OperatorThreads,
    is_due,
)
from spotrun_trainer.agent.state import State
from spotrun_trainer.agent.stores import Stores
from tests.unit.trainer.agent.builders import ScriptedOperator, a_world, an_answer, settings

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


class Behind(ScriptedOperator):
    """A replica that knows of an older world only, and says so whenever it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.say(an_answer(a_world(1)))
        self.polled_at: list[float] = []
        self.is_polled_again = threading.Event()

    @override
    def poll(self, seen: str) -> Answer:
        self.polled_at.append(time.monotonic())
        if len(self.polled_at) == 2:
            self.is_polled_again.set()
        return super().poll(seen)


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[Behind]:
    chosen, operator = settings(tmp_path), Behind()
    chosen.directory.mkdir()
    state = State(chosen, Stores(chosen.address))
    state.take(an_answer(a_world(2)))
    conversation = OperatorThreads(state, operator, operator)
    yield operator
    conversation.close()


def test_a_replica_that_is_behind_is_not_asked_again_at_once(behind: Behind) -> None:
    assert behind.is_polled_again.wait(10)
    first, second, *_ = behind.polled_at
    assert second - first >= BEHIND_SECONDS
