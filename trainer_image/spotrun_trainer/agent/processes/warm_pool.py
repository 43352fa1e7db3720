"""The processes that torchrun starts next, started before they are needed.

After a loss all workers wait for new processes, and those import PyTorch for three CPU seconds, and
what else the script uses. So an interpreter that has done that already waits beside each training
process, and torchrun's next process is one of them (`warm_interpreter.py`). Each takes 0.4 GB, and
more with a script's libraries, so they are kept only while there is room for twice that, and where
the kernel kills single processes of a container they go first.
"""

import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler import (
    SubprocessHandler,
)

from spotrun_trainer.agent.processes.warm_interpreter import UNFIT, Ahead, Launch
from spotrun_trainer.hooks.imported import IMPORTED_FILE
from spotrun_trainer.telemetry.container_usage import memory_left
from spotrun_trainer.telemetry.trace import Trace

log = logging.getLogger(__name__)

SETTLED_SECONDS = 20.0
"""The pause after a start before the next are begun: processes that start need the CPUs."""
LOOK_SECONDS = 1.0
VARIABLE = "SPOTRUN_BEGIN_AHEAD"
ONLY_TORCH = "torch"
"""The variable's value for interpreters that import PyTorch, and nothing else of the script."""
IMPORTED = ("torch", "torch._dynamo", "torch.nn.parallel", "spotrun_trainer.run")
"""Modules that nearly every training imports; optimizers and DistributedDataParallel import the
second."""
BEGUN_AHEAD = "begun ahead"
"""The mark in the trace for one more that is ready."""
ROOM_BYTES = 0.8e9
"""No process is kept with less free memory than this for each; with twice as much, they are
begun."""
ANSWER_SECONDS = 30.0
"""A process that does not answer for this long hangs: an import takes three CPU seconds."""
_PROGRAM = """
import sys
if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]
from spotrun_trainer.agent.processes.warm_interpreter import main
main(int(sys.argv[1]), *sys.argv[2:])  # the socket, what else, and the modules
"""
_OF_DEVICES = ("CUDA_", "GPU_", "HIP_", "ROCR_", "ZE_")
Process = subprocess.Popen[bytes]


@dataclass
class _Waiting:
    process: Process
    control: socket.socket  # it sends a byte once all is imported, and one for its command
    noted_at: int = 0  # when that was noted which it imports besides PyTorch; 0: nothing
    is_ready: bool = False
    is_unfit: bool = False

    def looks_ready(self) -> bool:
        """Whether it has imported everything by now."""
        with suppress(OSError):  # it has sent nothing yet, or has ended
            self._hear(self.control.recv(1, socket.MSG_DONTWAIT))
        return self.is_ready

    def _hear(self, word: bytes) -> None:
        self.is_unfit = word == UNFIT
        self.is_ready = bool(word) and not self.is_unfit

    def takes(self, launch: Launch, outputs: Sequence[int]) -> bool:
        """Whether it is alive and has taken its command; if not, it is killed."""
        with self.control, suppress(OSError):
            self.control.settimeout(ANSWER_SECONDS)
            if not self.is_ready:
                self._hear(self.control.recv(1))
            if self.is_ready:
                socket.send_fds(self.control, [b"."], outputs)
                self.control.sendall(launch.to_bytes())
                self.control.shutdown(socket.SHUT_WR)
                if self.control.recv(1):
                    return True
        self.end()
        return False

    def end(self) -> None:
        self.control.close()
        self.process.kill()
        self.process.wait()


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
    ) -> None:
        """`directory` is where a script's process notes what it imports; None: that is left."""
        self._trace = trace
        self._directory = directory
        self._given: frozenset[str] = frozenset()  # variables that torchrun gives to a process
        self._imported = imported
        self._room = room
        self._clock = clock
        self._wanted = 1
        self._waiting: list[_Waiting] = []
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
        """Start one that is missing, or end them if memory is short; to be called often."""
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
        elif self._are_ready() and number < self._wanted and room > 2 * (number + 1) * ROOM_BYTES:
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
        # An import is waited for, but not where other processes are to start after this one.
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

    def _heed(self, one: _Waiting) -> None:
        """Import PyTorch only from now on, if an interpreter says that the rest cannot be."""
        if one.is_unfit:
            self._directory = None

    def _noted_at(self) -> int:
        """Return when it was noted what else to import; 0 if nothing else is to be."""
        with suppress(OSError):
            if self._directory is not None and self._given:
                return (self._directory / IMPORTED_FILE).stat().st_mtime_ns
        return 0

    def _begin(self) -> _Waiting:
        noted_at = self._noted_at()
        ahead = Ahead(str(self._directory), sorted(self._given)) if noted_at else Ahead()
        return _begin(ahead, self._imported, noted_at)

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
    interpreters = Interpreters(trace, directory=Path(folder) if folder else None)
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


def _begin(ahead: Ahead, imported: Sequence[str], noted_at: int) -> _Waiting:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [
                sys.executable,
                "-u",
                "-c",
                _PROGRAM,
                str(theirs.fileno()),
                ahead.to_text(),
                *imported,
            ],
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # as torchrun's processes are, which it ends by their sessions
        )
    return _Waiting(process, ours, noted_at)


def _is_script(command: Sequence[str]) -> bool:
    """Whether the command is this Python's `-u SCRIPT ...`: without -m, not bound to some CPUs."""
    python, *rest = command
    return python == sys.executable and rest[:1] == ["-u"] and rest[1].endswith(".py")


def _devices(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that choose GPUs, which an import may read; torchrun may change them."""
    return {name: environment[name] for name in environment if name.startswith(_OF_DEVICES)}
