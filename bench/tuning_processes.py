"""The processes of trials, checked every 50 ms: when each began and ended, and its CPU time."""

import os
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

LOOK_SECONDS = 0.05
_LOOKS = 3  # at a process: a new fork still shows its parent's environment
_TICKS = os.sysconf("SC_CLK_TCK")
_JOB = b"SPOTRUN_JOB="
_PROC = Path("/proc")


@dataclass
class Process:
    """One process of a trial's worker; times are in seconds of the machine's clock."""

    job: str
    is_agent: bool  # torchrun; else a training process, or a spare one
    began: float
    ended: float = float("inf")
    times: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)  # CPU seconds used until each of these times

    def cpu_between(self, since: float, until: float) -> float:
        """Return the CPU seconds that it used in a time, as far as it was observed."""
        return self._cpu_at(until) - self._cpu_at(since)

    def _cpu_at(self, moment: float) -> float:
        place = bisect_right(self.times, moment)
        return self.cpu[place - 1] if place else 0.0


@contextmanager
def watched_processes() -> Iterator[list[Process]]:
    """Watch the processes of all trials during the block; the list grows."""
    found: list[Process] = []
    is_over = threading.Event()
    thread = threading.Thread(target=_watch, args=(found, is_over), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()


def _watch(found: list[Process], is_over: threading.Event) -> None:
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    known: dict[str, Process] = {}
    looks: Counter[str] = Counter()  # at processes of no trial, or new forks
    while not is_over.wait(LOOK_SECONDS):
        there = {name for name in os.listdir(_PROC) if name.isdigit()}  # noqa: PTH208 - 20 a second
        now = time.time()
        for pid in known.keys() - there:
            known.pop(pid).ended = now
        for pid in there - known.keys():
            looks[pid] += 1
            if looks[pid] <= _LOOKS and (process := _process(pid, booted, known)) is not None:
                known[pid] = process
                found.append(process)
        for pid, process in known.items():
            _note_cpu(process, pid, now)


def _process(pid: str, booted: float, known: Container[str]) -> Process | None:
    """Return a process if it belongs to a trial; `known` are other processes of trials."""
    with suppress(OSError):
        variables = (_PROC / pid / "environ").read_bytes().split(b"\0")
        job = next((one[len(_JOB) :] for one in variables if one.startswith(_JOB)), None)
        if job is not None:
            fields = _stat(pid)
            is_agent = fields[1] not in known
            return Process(job.decode(), is_agent, booted + int(fields[19]) / _TICKS)
    return None


def _note_cpu(process: Process, pid: str, now: float) -> None:
    with suppress(OSError):
        user, system = _stat(pid)[11:13]
        process.times.append(now)
        process.cpu.append((int(user) + int(system)) / _TICKS)


def _stat(pid: str) -> list[str]:
    """Return the fields of /proc/PID/stat that follow the name."""
    return (_PROC / pid / "stat").read_text().rpartition(")")[2].split()
