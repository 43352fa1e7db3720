"""Real processes write one checkpoint without a process group, and are killed at any moment."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
import torch

from spotrun_trainer.checkpoint import Checkpoints
from tests.support.processes.trainer_world import SERVER
from tests.unit.trainer.checkpoint.states import Held, checkpoints, tracked
from tests.unit.trainer.ending import run_script

TENSORS, ELEMENTS = 12, 60_000  # 2.9 MB
TRIES = 30
PATIENCE_SECONDS = 30.0


def content(mark: int) -> Held:
    tensors = {f"x{number}": torch.full((ELEMENTS,), mark) for number in range(TENSORS)}
    return Held(mark=mark, **tensors)


def be_a_rank(
    place: Path, name: str, began: Barrier, *, rank: int, size: int, mark: int, seconds: float
) -> None:
    """A training process: it knows its place among the others, and nothing else of them."""
    torch.set_num_threads(1)
    opened = Checkpoints(place, keep=1, attempt=str(mark))
    flat = tracked(held=content(mark)).flatten()
    began.wait(PATIENCE_SECONDS)
    opened.save(name, flat, rank=rank, size=size, extra={"mark": mark})
    opened.before_change()
    opened.wait(seconds)
    opened.close()


def load_and_check(place: Path, name: str) -> int:
    """Whose content it is; all of it must be of one save."""
    target = Held()
    with checkpoints(place) as opened:
        extra = opened.load(name, tracked(held=target))
    assert extra["mark"] == target.content.pop("mark")
    assert [extra["mark"]] * TENSORS == [int(one.unique()) for one in target.content.values()]
    mark: int = extra["mark"]
    return mark


@contextlib.contextmanager
def ranks(
    place: Path, name: str, *, size: int, mark: int, seconds: float
) -> Iterator[Sequence[BaseProcess]]:
    """The block begins when all of them begin to write."""
    started = []
    began = SERVER.Barrier(size + 1)
    for rank in range(size):
        known = {"rank": rank, "size": size, "mark": mark, "seconds": seconds}
        given = (place, name, began)
        process = SERVER.Process(target=be_a_rank, args=given, kwargs=known, daemon=True)
        process.start()
        started.append(process)
    try:
        began.wait(PATIENCE_SECONDS)
        yield started
    finally:
        for process in started:
            process.join(PATIENCE_SECONDS)
            process.kill()
            process.join()
            process.close()


@pytest.mark.parametrize("size", [2, 4])
def test_processes_complete_a_checkpoint_together(tmp_path: Path, size: int) -> None:
    with ranks(tmp_path, "step-1.g1", size=size, mark=7, seconds=PATIENCE_SECONDS):
        pass

    assert load_and_check(tmp_path, "step-1.g1") == 7
    files = {path.name for path in (tmp_path / "step-1.g1").iterdir()}
    expected = {f"rank-{rank}.{kind}" for rank in range(size) for kind in ("json", "safetensors")}
    assert {"COMPLETE"} | expected == files


def test_whenever_a_rank_is_killed_the_newest_checkpoint_loads(tmp_path: Path) -> None:
    dice = random.Random(1)  # noqa: S311
    with ranks(tmp_path / "undisturbed", "step-0.g0", size=3, mark=0, seconds=PATIENCE_SECONDS):
        began = time.monotonic()
        while not (tmp_path / "undisturbed" / "step-0.g0" / "COMPLETE").exists():
            assert time.monotonic() - began < PATIENCE_SECONDS
        usual_seconds = time.monotonic() - began  # without the end of the processes
    completed = 0
    for mark in range(TRIES):
        name = f"step-{mark // 3}.g0"  # starts that failed save the same steps again
        with ranks(tmp_path, name, size=3, mark=mark, seconds=2 * usual_seconds) as started:
            time.sleep(dice.uniform(0, 1.5 * usual_seconds))  # when it is killed: at any moment
            pid = dice.choice(started).pid
            assert pid is not None
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with checkpoints(tmp_path) as opened:
            newest = opened.newest()
        if newest is not None:
            completed += load_and_check(tmp_path, newest) == mark

    assert 0 < completed < TRIES, "the kills hit before, during and after the writing"


ENDS_AT_ONCE = """
import sys, torch
from tests.unit.trainer.checkpoint.states import Held, tracked
from spotrun_trainer.checkpoint import Checkpoints, saver

saver.EXIT_SECONDS = float(sys.argv[2])

flat = tracked(held=Held(x=torch.ones(1000, 10_000))).flatten()
Checkpoints(sys.argv[1], keep=1).save("step-10.g1", flat, rank=0, size=1, extra={})
"""
HANGS = """
import os, threading
from spotrun_trainer.checkpoint import saver

writes = threading.Event()
saver.write_part = lambda *_: (writes.set(), os.read(os.pipe()[0], 1))
"""
ONCE_IT_HANGS = "writes.wait()"  # earlier the thread may be in torch, where it cannot be left


@pytest.mark.parametrize(
    ("script", "seconds", "complete"),
    [
        # With a lower priority, on a busy machine, a write may take longer than it has.
        (ENDS_AT_ONCE, PATIENCE_SECONDS, ["step-10.g1"]),
        (HANGS + ENDS_AT_ONCE + ONCE_IT_HANGS, 0.1, []),
    ],
)
def test_a_process_that_ends_still_writes_what_it_has_begun_unless_that_hangs(
    tmp_path: Path, script: str, seconds: float, complete: list[str]
) -> None:
    ended = run_script(script, tmp_path, seconds)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert [place.parent.name for place in tmp_path.glob("*/COMPLETE")] == complete
