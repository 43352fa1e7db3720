"""Checkpoints that are being written when the world breaks under them."""

import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from spotrun.wire import How
from spotrun_trainer import Run
from spotrun_trainer.checkpoint import Checkpoints
from spotrun_trainer.checkpoint.format.completion import Completion
from spotrun_trainer.checkpoint.format.writer import Part
from spotrun_trainer.checkpoint.host_memory import bytes_of
from spotrun_trainer.checkpoint.saver import Saver
from spotrun_trainer.checkpoint.staging import Staging
from spotrun_trainer.state.flatten import Flat
from tests.unit.trainer.run.elastic import Jobs, die, this_is
from tests.unit.trainer.run.scripts import Plan, train
from tests.unit.trainer.run.test_joining_workers import wait_for
from tests.unit.trainer.run.test_worlds import Hold

HOUR_SECONDS = 3600.0
LATE_SECONDS = 0.5  # a hundred times what it takes to leave without it


@dataclass(frozen=True)
class TellOneOfTwo:
    """One is told to end in a step, and the other writes its part of the checkpoint late."""

    folder: Path

    def __call__(self, _run: Run, step: int, count: int) -> None:
        if (step, count) != (3, 0):
            return
        if this_is("a"):
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            finish = Staging.finish

            def late(staging: Staging) -> Tensor:
                wait_for(self.folder / "told")
                time.sleep(LATE_SECONDS)
                return finish(staging)

            Staging.finish = late  # type: ignore[method-assign,assignment]


def test_who_is_told_to_end_while_it_waits_for_a_world_writes_what_it_has_begun_to(
    jobs: Jobs, tmp_path: Path
) -> None:
    place = tmp_path / "checkpoints"
    plan = Plan(checkpoint=str(place), nuisance=TellOneOfTwo(tmp_path))
    job = jobs.start(train, plan, workers="ab")
    job.until(lambda: job.progress("b").broken)
    job.signal("b", signal.SIGTERM)
    (tmp_path / "told").touch()
    assert [one.exit_code for one in job.ended("a", "b")] == [0, 0]
    assert Checkpoints(place, keep=3).newest() == "step-3.g1"


@dataclass(frozen=True)
class CopyLate:
    """A worker stands still, and its thread copies what is being saved only once it is back."""

    worker: str
    hold: Hold

    def __call__(self, run: Run, step: int, count: int) -> None:
        if not this_is(self.worker):
            self.hold(run, step, count)
        elif (step, count) == (2, 0):
            self._watch_what_is_saved()
        elif (step, count) == (3, 0):
            self._note("stands")
            wait_for(self.hold.folder / "reached")
        elif step > self.hold.at:
            self._note("taken")

    def _note(self, name: str) -> None:
        (self.hold.folder / name).touch()

    def _watch_what_is_saved(self) -> None:
        save, finish = Saver.save, Staging.finish
        expected = bytearray()

        def noted(saver: Saver, part: Part, flat: Flat) -> None:
            for one in part.slices:
                run = flat.tensors[one.tensor].clone().flatten()[one.start : one.stop]
                expected.extend(bytes_of(run))
            Saver.save = save  # type: ignore[method-assign]
            save(saver, part, flat)

        def late(staging: Staging) -> Tensor:
            wait_for(self.hold.folder / "taken")
            memory = finish(staging)
            Staging.finish = finish  # type: ignore[method-assign]
            is_as_it_was = bytes(bytes_of(memory)) == bytes(expected)
            (self.hold.folder / "saved").write_text(f"as it was: {is_as_it_was}")
            return memory

        Saver.save = noted  # type: ignore[method-assign,assignment]
        Staging.finish = late  # type: ignore[method-assign,assignment]


def test_what_is_being_saved_is_copied_before_another_state_takes_its_place(
    jobs: Jobs, tmp_path: Path
) -> None:
    late = CopyLate("b", Hold(tmp_path, at=5))
    place = tmp_path / "checkpoints"
    plan = Plan(total=7, checkpoint=str(place), every="2 steps", nuisance=late)
    job = jobs.start(train, plan, workers="abc")
    job.until((tmp_path / "stands").exists)
    job.isolate("b")
    job.publish(How.ABORT, "a", "c")
    job.until((tmp_path / "held").exists)
    job.publish(How.BOUNDARY, "a", "b", "c")
    job.reach("b")
    for name in ("reached", "go"):
        (tmp_path / name).touch()
    assert [one.error for one in job.ended("a", "b", "c")] == [""] * 3
    assert (tmp_path / "saved").read_text() == "as it was: True"


@dataclass(frozen=True)
class CompleteLate:
    """The parts of a checkpoint are seen only when the test lets go, as on a slow file system."""

    folder: Path

    def __call__(self, _run: Run, step: int, count: int) -> None:
        if (step, count) != (1, 0):
            return
        reached = Completion.reached

        def late(completion: Completion, now: float, *, is_ending: bool = False) -> bool:
            has_gone = (self.folder / "go").exists()
            return has_gone and reached(completion, now, is_ending=is_ending)

        Completion.reached = late  # type: ignore[method-assign,assignment]


def test_a_last_checkpoint_that_takes_long_is_no_hang(jobs: Jobs, tmp_path: Path) -> None:
    place = tmp_path / "checkpoints"
    plan = Plan(total=3, checkpoint=str(place), nuisance=CompleteLate(tmp_path))
    job = jobs.start(train, plan, workers="ab")
    job.until(lambda: all(job.progress(each).signs >= 5 for each in "ab"))
    assert not job.progress("a").completed
    (tmp_path / "go").touch()
    assert [ended.error for ended in job.ended("a", "b")] == ["", ""]
    assert Checkpoints(place, keep=3).newest() == "step-3.g1"


@dataclass(frozen=True)
class DieSaving:
    """A save is due in the second step, and a worker dies before it has written its part."""

    worker: str

    def __call__(self, run: Run, step: int, count: int) -> None:
        if (step, count) == (2, 0):
            run._saving._schedule._saved_at -= HOUR_SECONDS
            if this_is(self.worker):
                Staging.finish = _never  # type: ignore[method-assign,assignment]
        elif (step, count) == (3, 1) and this_is(self.worker):
            die()


def _never(_staging: Staging) -> None:
    threading.Event().wait()


def test_a_save_that_is_lost_with_a_worker_is_made_up_for_at_once(
    jobs: Jobs, tmp_path: Path
) -> None:
    place = tmp_path / "checkpoints"
    plan = Plan(total=6, checkpoint=str(place), every=HOUR_SECONDS, nuisance=DieSaving("b"))
    job = jobs.start(train, plan, workers="abc")
    job.until_dead("b")
    job.publish(How.ABORT, "a", "c")
    assert [ended.error for ended in job.ended("a", "c")] == ["", ""]
    assert Checkpoints(place, keep=3).complete() == ["step-6.g2", "step-3.g2"]
