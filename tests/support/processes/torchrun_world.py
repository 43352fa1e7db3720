"""A script in several processes of a stock torchrun, with the files of a TrainingJob's agent."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spotrun.wire import Answer, Notice
from spotrun_trainer.hooks.python_path import watch_processes
from spotrun_trainer.process.ipc_files import read_progress, write_world
from spotrun_trainer.process.progress_report import TrainerProgress

PATIENCE_SECONDS = 300.0


@dataclass
class TorchrunWorld:
    """The processes of a script, and the folder by which an agent would talk to them."""

    torchrun: subprocess.Popen[str]
    folder: Path

    def progress(self) -> TrainerProgress:
        """Return the last report of rank 0."""
        return read_progress(self.folder)

    def tell_notice(self, seconds: float) -> None:
        """Say that a node goes away, as the operator does."""
        notice = Notice(time.time() + seconds, "node a goes away")
        write_world(self.folder, Answer("2", "Running", notice=notice))

    def pid(self, rank: int) -> int:
        """Return the process of a rank."""
        for child in _children(self.torchrun.pid):
            if f"RANK={rank}".encode() in _environment(child):
                return child
        raise LookupError(f"rank {rank} has no process")

    def until(self, holds: Callable[[], Any]) -> None:
        """Wait until something holds, as long as the script runs."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert self.torchrun.poll() is None, self.said()
            assert time.monotonic() < end, "it does not come"
            time.sleep(0.02)  # a look at a file: there is nothing to wait on

    def ended(self) -> tuple[int, str]:
        """Return the exit code and what was said, once all have ended."""
        return self.torchrun.wait(PATIENCE_SECONDS), self.said()

    def said(self) -> str:
        """Return what was printed so far."""
        return (self.folder / "said.txt").read_text()


def told_to_end(
    script: Path, rank: int, *, after: int, folder: Path, env: Mapping[str, str]
) -> TrainerProgress:
    """Tell one rank of two to end after some steps; return how far all of them came."""
    with torchrun(script, "--steps=100000", folder=folder, env=env) as world:
        world.until(lambda: world.progress().step >= after)
        os.kill(world.pid(rank), signal.SIGTERM)
        assert world.ended()[0] == 0, world.said()
        return world.progress()


def gone_on(script: Path, steps: int, *, folder: Path, env: Mapping[str, str]) -> TrainerProgress:
    """Let a script train up to some step; return what it has told."""
    with torchrun(script, f"--steps={steps}", folder=folder, env=env) as world:
        assert world.ended()[0] == 0, world.said()
        return world.progress()


@contextmanager
def torchrun(
    script: Path, *arguments: object, folder: Path, size: int = 2, env: Mapping[str, str] = {}
) -> Iterator[TorchrunWorld]:
    """Start a script; what still runs at the end is ended."""
    folder.mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "SPOTRUN_DIR": str(folder),
        "SPOTRUN_WORLD_NUMBER": "1",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        **env,
    }
    watch_processes(environment)
    way = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}")
    with (folder / "said.txt").open("w") as said:
        started = subprocess.Popen(
            [sys.executable, *way, script, *map(str, arguments)],
            env=environment, stdout=said, stderr=said, text=True,
        )  # fmt: skip
    try:
        yield TorchrunWorld(started, folder)
    finally:
        if started.poll() is None:
            started.terminate()  # it ends its processes
            started.wait(PATIENCE_SECONDS)


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in listed.split()]


def _environment(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
