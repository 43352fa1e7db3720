"""Processes that are told something while they restore a checkpoint: it is whole, whatever they do.

Until the first step there is nothing to save, so SIGTERM ends a process as it always does.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from spotrun.wire import Answer, How, Orders
from spotrun_trainer.process.ipc_files import WorldFile, write_world
from spotrun_trainer.state.flatten import Flat
from spotrun_trainer.state.tracked import Tracked
from tests.support.processes.trainer_world import run_alone, run_world
from tests.unit.trainer.run.elastic import Jobs, this_is
from tests.unit.trainer.run.scripts import Plan, Trained, train
from tests.unit.trainer.run.test_worlds import assert_undisturbed, undisturbed

SAVED = "step-3.g0"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """To go on with what was saved after three steps of six."""
    plan = Plan(total=6, deterministic=True, checkpoint=str(tmp_path / "checkpoints"))
    assert run_alone(train, replace(plan, total=3)).error == ""
    return plan


def train_told_amid_restore(plan: Plan, tell: Callable[[], None]) -> Trained:
    load = Tracked.load

    def told(tracked: Tracked, flat: Flat) -> None:
        Tracked.load = load  # type: ignore[method-assign]
        tell()
        load(tracked, flat)

    Tracked.load = told  # type: ignore[method-assign,assignment]
    return train(plan)


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("size", [1, 2])
def test_sigterm_ends_them_at_once_and_the_next_ones_begin_with_the_same(
    size: int, plan: Plan
) -> None:
    told = run_world(size, train_told_amid_restore, plan, terminate)
    assert [-signal.SIGTERM] * size == [one.exit_code for one in told]
    for ended in run_world(size, train, plan):
        assert ended.error == "", ended.said
        assert undisturbed(plan).losses[3:] == ended.value.losses


@dataclass(frozen=True)
class TerminateOne:
    worker: str

    def __call__(self) -> None:
        if this_is(self.worker):
            terminate()


@pytest.mark.parametrize("worker", ["a", "b"])
def test_if_one_is_told_to_end_the_others_restore_anew_in_the_next_world(
    worker: str, plan: Plan, jobs: Jobs
) -> None:
    tell = TerminateOne(worker)
    job = jobs.start(train_told_amid_restore, plan, tell, workers="abc", restore=SAVED)
    job.until_dead(worker)
    survivors = sorted({"a", "b", "c"} - {worker})
    job.publish(How.ABORT, *survivors)
    assert_undisturbed(plan, job, *survivors)
    assert [one.exit_code for one in job.ended(worker)] == [-signal.SIGTERM]


@dataclass(frozen=True)
class Order:
    """The operator says something else, of the same world."""

    checkpoint: int = 0
    stop_at: float | None = None

    def __call__(self) -> None:
        directory = os.environ["SPOTRUN_DIR"]
        answer = WorldFile(directory).read()
        assert answer is not None
        news = Answer("news", answer.phase, answer.world, Orders(self.checkpoint), self.stop_at)
        write_world(directory, news)


def test_an_order_is_followed_with_the_first_step(plan: Plan, jobs: Jobs, tmp_path: Path) -> None:
    job = jobs.start(
        train_told_amid_restore, plan, Order(checkpoint=1), workers="ab", restore=SAVED
    )
    assert_undisturbed(plan, job, "a", "b")
    names = {place.name for place in (tmp_path / "checkpoints").glob("step-*")}
    assert names == {SAVED, "step-4.g1", "step-6.g1"}


def test_who_is_out_of_time_departs_with_the_first_step(plan: Plan, jobs: Jobs) -> None:
    job = jobs.start(train_told_amid_restore, plan, Order(stop_at=1.0), workers="ab", restore=SAVED)
    for ended in job.ended("a", "b"):
        assert (ended.error, ended.exit_code) == ("", 0), ended.said
    progress = job.progress("a")
    assert (progress.exiting, progress.checkpoint) == ("departed", "step-4.g1")
