"""The orderly end of training processes: a script gets SIGTERM, and has time to save.

A script that does not handle SIGTERM would end at once, in the middle of a file that it writes: it
is not ended until it has written that file.
"""

import os
import signal
import time
from collections.abc import Callable, Container
from contextlib import suppress

from spotrun_trainer.agent.processes.kill import kill_sessions, send_signal
from spotrun_trainer.agent.processes.sessions import (
    Process,
    bytes_being_written,
    families,
    handles_sigterm,
    has_ended,
    is_held,
    leaders,
)

LOOK_SECONDS = 0.05
HELD_SECONDS = 0.1
WINDOW_SECONDS = 2.0
LEAST_BYTES = 1 << 20
"""A checkpoint is written faster than this in a window; a slower file is a log that stays open."""


class Stopping:
    """Ends the processes of a worker; each gets SIGTERM once, however often `stop` is called."""

    def __init__(
        self, grace_seconds: float, *, spared: Callable[[], Container[int]] = lambda: ()
    ) -> None:
        """`grace_seconds` is their time; `spared` are not ended, because they do not train yet."""
        self._grace_seconds = grace_seconds
        self._spared = spared
        self._sessions: dict[int, _Session] = {}

    def stop(self, *, is_urgent: Callable[[], bool] = lambda: False) -> None:
        """Send SIGTERM; wait until they end, it is urgent, or the grace is over; then kill them."""
        end = time.monotonic() + self._grace_seconds
        known = self._sessions
        self._sessions = {pid: known.get(pid) or _Session(pid) for pid in leaders(self._spared())}
        while time.monotonic() < end and not is_urgent():
            for session in self._sessions.values():
                session.terminate()
            if all(session.is_over for session in self._sessions.values()):
                break
            time.sleep(LOOK_SECONDS)
        started = (session.family for session in self._sessions.values())
        kill_sessions(but=self._spared(), also=frozenset[Process]().union(*started))
        self._sessions = {}  # numbers of processes are used again


class _Session:
    """A training process, and the processes that it has started."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._awaited: set[int] = set()  # after SIGTERM: processes that may still save
        self._sizes: dict[str, tuple[int, float]] = {}  # of each file being written, and when
        self._logs: set[str] = set()
        self.family = frozenset[Process]()  # found before SIGTERM: later its parents may be unknown

    @property
    def is_over(self) -> bool:
        """Whether all processes that may save have ended."""
        return all(map(has_ended, self._awaited or {self._leader}))

    def terminate(self) -> None:
        """Send SIGTERM, once, as soon as that does no harm."""
        if self._awaited or has_ended(self._leader):
            return
        self.family = families({self._leader})
        with suppress(ProcessLookupError):
            if handles_sigterm(self._leader):
                self._awaited = {self._leader}
                # To it alone: it may need its child processes, such as data loaders, to save.
                os.kill(self._leader, signal.SIGTERM)
            elif not self._writes():
                self._end_unless_it_writes()

    def _end_unless_it_writes(self) -> None:
        """End a leader that does not save, stopped so that it begins no file; children may save."""
        others = [process for process in self.family if process.group != self._leader]
        self._send(signal.SIGSTOP, others)
        try:
            held_by = time.monotonic() + HELD_SECONDS
            while not is_held(self._leader) and time.monotonic() < held_by:
                time.sleep(0.001)
            if not self._writes():
                savers = {one.pid: one for one in self.family if handles_sigterm(one.pid)}
                # A leader of a group, such as `timeout`, is told alone: it tells its command.
                told = [one for one in savers.values() if self._is_told(one, savers)]
                self._awaited = {self._leader, *(one.pid for one in told)}
                self._send(signal.SIGTERM, [one for one in told if one in others])
        finally:
            self._send(signal.SIGCONT, others)

    def _is_told(self, saver: Process, savers: Container[int]) -> bool:
        is_in_group = saver.group == self._leader
        return is_in_group or saver.group == saver.pid or saver.group not in savers

    def _send(self, number: signal.Signals, others: list[Process]) -> None:
        """Send a signal to the leader's group, and to processes outside of it."""
        for process in others:
            send_signal(process, number)
        os.killpg(self._leader, number)

    def _writes(self) -> bool:
        """Whether a file grows as a checkpoint does, or was seen for the first time."""
        now = time.monotonic()
        files = bytes_being_written(process.pid for process in self.family)
        self._sizes = {file: seen for file, seen in self._sizes.items() if file in files}
        self._logs &= files.keys()
        for file, size in files.items():
            before, since = self._sizes.setdefault(file, (size, now))
            if now - since >= WINDOW_SECONDS:
                self._sizes[file] = size, now
                if size - before < LEAST_BYTES:
                    self._logs.add(file)
        return bool(files.keys() - self._logs)
