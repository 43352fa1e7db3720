"""The processes that torchrun starts next, started before they are needed.

After a loss all workers wait for new processes, which import PyTorch for three CPU seconds, and
what else the script uses. So an interpreter that has done that already waits beside each training
process, and torchrun's next process is one of them (`interpreter.py`). Each takes 0.4 GB, and more
with a script's libraries, so they are kept only while there is room for twice that, and where the
kernel kills single processes of a container it kills them first.
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler import (
    SubprocessHandler,
)

from spotrun_trainer.agent.processes.warm.early import adopt
from spotrun_trainer.agent.processes.warm.interpreter import Ahead, Launch
from spotrun_trainer.agent.processes.warm.waiting import (
    IMPORTED,
    ROOM_BYTES,
    VARIABLE,
    Process,
    Waiting,
    begin,
    has_room_for,
)
from spotrun_trainer.hooks.imported import IMPORTED_FILE
from spotrun_trainer.telemetry.container_usage import memory_left
from spotrun_trainer.telemetry.trace import Trace

log = logging.getLogger(__name__)

SETTLED_SECONDS = 20.0
"""The pause after a start before the next ones are begun: processes that start need the CPUs."""
LOOK_SECONDS = 1.0
ONLY_TORCH = "torch"
"""The variable's value for interpreters that import PyTorch, and nothing else of the script."""
BEGUN_AHEAD = "begun ahead"
"""The mark in the trace when one more is ready."""
_OF_DEVICES = ("CUDA_", "GPU_", "HIP_", "ROCR_", "ZE_")


class Interpreters:
    """One warm interpreter for each process of this worker; for torchrun's main thread only."""

    def __init__(
        self,
        trace: Trace,
        *,
        room: Callable[[], float] = lambda: memory_left(os.getpid()),
        clock: Callable[[], float] = time.monotonic,
        imported: Sequence[str] = IMPORTED,
        directory: Path | None = None,
        waiting: Iterable[Waiting] = (),
    ) -> None:
        """Keep `waiting`, which wait already, and start others.

        `directory` is where a script's process notes what it imports; None: only PyTorch is
        imported.
        """
        self._trace = trace
        self._directory = directory
        self._given: frozenset[str] = frozenset()  # variables that torchrun gives to a process
        self._imported = imported
        self._room = room
        self._clock = clock
        self._wanted = 1
        self._waiting = list(waiting)
        self._not_before = clock()
        self._is_closed = False

    @property
    def pids(self) -> frozenset[int]:
        """The process ids of those that wait."""
        return frozenset(one.process.pid for one in self._waiting)

    def follow(self, processes: int) -> None:
        """Keep one for each of this worker's processes in the world that is entered."""
        self._wanted = processes

    def look(self, *, are_of_use: bool = True) -> None:
        """Start one that is missing, or end them if memory is short; must be called often."""
        now = self._clock()
        if self._is_closed or now < self._not_before:
            return
        self._not_before = now + LOOK_SECONDS
        self._dismiss_the_outdated()
        if any(one.process.poll() is not None for one in self._waiting):
            log.info("an interpreter that was started ahead has ended; no other is started ahead")
            self.close()
            return
        room = self._room() if are_of_use else 0.0
        number = len(self._waiting)
        if room < number * ROOM_BYTES:
            self._let_go()
        elif self._are_ready() and number < self._wanted and has_room_for(number + 1, room):
            self._waiting.append(self._begin())

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], *outputs: int
    ) -> Process | None:
        """Return a waiting process that now runs the command; None: torchrun has to start one."""
        self._not_before = self._clock() + SETTLED_SECONDS
        if not _is_script(command) or _devices(environment) != _devices(os.environ):
            self.close()  # a worker's command line stays what it is
            return None
        differing = environment.items() ^ os.environ.items()
        self._given = frozenset(name for name, _ in differing)
        # Wait for an import, but not if other processes must start after this one.
        all_may = self._are_ready() or self._wanted == 1
        able = [one for one in self._waiting if one.is_ready or all_may]
        for one in able:
            self._waiting.remove(one)
            if one.takes(Launch(command, environment), outputs):
                return one.process
            self._heed(one)
        return None

    def close(self) -> None:
        """End all of them, and start no more."""
        self._is_closed = True
        self._let_go()

    def _dismiss_the_outdated(self) -> None:
        """End those that wait without what the script imports; others are begun in their place."""
        noted_at = self._noted_at()
        for one in tuple(self._waiting):
            if not one.is_ready and one.looks_ready():
                self._trace.mark(BEGUN_AHEAD)
            self._heed(one)
            if one.is_unfit or one.noted_at != noted_at:
                self._waiting.remove(one)
                one.end()

    def _heed(self, one: Waiting) -> None:
        """Import PyTorch only from now on, if an interpreter says that the rest must not be."""
        if one.is_unfit:
            self._directory = None

    def _noted_at(self) -> int:
        """Return when it was noted what else to import; 0 if there is nothing else."""
        with suppress(OSError):
            if self._directory is not None and self._given:
                return (self._directory / IMPORTED_FILE).stat().st_mtime_ns
        return 0

    def _begin(self) -> Waiting:
        noted_at = self._noted_at()
        ahead = Ahead(str(self._directory), sorted(self._given)) if noted_at else Ahead()
        return begin(ahead, self._imported, noted_at=noted_at)

    def _are_ready(self) -> bool:
        """Whether all have imported; they do so one after the other, beside a training."""
        for one in self._waiting:
            if not one.is_ready and one.looks_ready():
                self._trace.mark(BEGUN_AHEAD)
        return all(one.is_ready for one in self._waiting)

    def _let_go(self) -> None:
        for one in self._waiting:
            one.end()
        self._waiting.clear()


def begin_ahead(environment: Mapping[str, str], trace: Trace) -> Interpreters:
    """Have torchrun's processes started ahead, unless the environment says otherwise."""
    folder = environment.get("SPOTRUN_DIR") if environment.get(VARIABLE) != ONLY_TORCH else None
    interpreters = Interpreters(
        trace, directory=Path(folder) if folder else None, waiting=adopt(environment)
    )
    if environment.get(VARIABLE) == "0":
        interpreters.close()
        return interpreters
    as_ever = SubprocessHandler._popen  # noqa: SLF001 - there is no other way in (2.10 to 2.15)

    def begun(handler: SubprocessHandler, args: tuple[str, ...], env: dict[str, str]) -> Process:
        files = zip((handler._stdout, handler._stderr), (1, 2), strict=True)  # noqa: SLF001
        outputs = (usual if file is None else file.fileno() for file, usual in files)
        return interpreters.start(args, env, *outputs) or as_ever(handler, args, env)

    SubprocessHandler._popen = begun  # type: ignore[assignment,method-assign]  # noqa: SLF001 - see above
    interpreters.look()
    return interpreters


def _is_script(command: Sequence[str]) -> bool:
    """Whether the command is this Python's `-u SCRIPT ...`: without -m, not bound to some CPUs."""
    python, *rest = command
    return python == sys.executable and rest[:1] == ["-u"] and rest[1].endswith(".py")


def _devices(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that choose GPUs, which an import may read; torchrun may change them."""
    return {name: environment[name] for name in environment if name.startswith(_OF_DEVICES)}
