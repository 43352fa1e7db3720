"""One of several processes hangs: the others hold every step, and go on with it."""

import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

from spotrun.wire import How
from spotrun_trainer.run import Run
from tests.unit.trainer.run.elastic import Jobs, this_is
from tests.unit.trainer.run.scripts import train
from tests.unit.trainer.run.test_worlds import PLAN, assert_undisturbed


@dataclass(frozen=True)
class Hang:
    """A process stands still in the fourth step, as one does whose data never come."""

    worker: str
    folder: Path

    def __call__(self, _run: Run, step: int, count: int) -> None:
        if this_is(self.worker) and (step, count) == (4, 1) and not (self.folder / "hung").exists():
            (self.folder / "hung").touch()
            while True:
                time.sleep(60)


def test_who_hangs_does_not_break_off_and_the_others_go_on_with_the_step_they_hold(
    jobs: Jobs, tmp_path: Path
) -> None:
    plan = replace(PLAN, nuisance=Hang("b", tmp_path))
    job = jobs.start(train, plan, workers="abc")
    job.until((tmp_path / "hung").exists)
    job.publish(How.ABORT, *"abc")
    job.until(lambda: job.progress("a").entering == job.progress("c").entering == 2)
    assert (job.progress("b").entering, job.progress("b").left) == (1, 0)
    job.publish(How.ABORT, *"ac")
    assert_undisturbed(plan, job, "a", "c")


def test_whose_process_was_stopped_comes_back_with_a_new_one(jobs: Jobs, tmp_path: Path) -> None:
    plan = replace(PLAN, total=100_000)
    job = jobs.start(train, plan, workers="abc")
    job.until(lambda: job.progress("b").step >= 5)
    job.signal("b", signal.SIGSTOP)
    job.publish(How.ABORT, *"abc")
    job.until(lambda: job.progress("a").entering == job.progress("c").entering == 2)
    job.publish(How.ABORT, *"ac")
    job.until(lambda: job.progress("a").world_number == 3)
    step = job.progress("a").step
    assert step >= 5
    job.signal("b", signal.SIGKILL)  # as its agent does
    job.ended("b")
    (job.directory("b") / "progress.json").unlink()
    job.bring_in(How.BOUNDARY, *"acb")
    job.until(lambda: job.progress("b").step > step)
