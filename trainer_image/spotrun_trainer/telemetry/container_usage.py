"""The share of its CPU and memory that a worker uses, read from files every few seconds."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from spotrun_trainer.telemetry import cgroup
from spotrun_trainer.telemetry.cgroup import Level

SAMPLE_SECONDS = 5.0
"""A reading costs about a millisecond, and decisions based on it take minutes."""
_V1_FILES = {
    "cpu": ("cpu.cfs_quota_us", "cpu.cfs_period_us"),
    "cpuacct": ("cpuacct.usage",),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat"),
}
_V2_FILES = ("cpu.max", "cpu.stat", "memory.max", "memory.current", "memory.stat")
_CPU_TIMES = slice(11, 15)  # of what follows the name in /proc/PID/stat: own and reaped children's
_RESIDENT_PAGES = 21


@dataclass(frozen=True)
class Sample:
    """Used shares between 0 and 1 of the limits; None where they are unknown."""

    cpu: float | None = None  # since the sample before
    memory: float | None = None


class Usage:
    """The worker's CPU and memory; `pid` is its topmost process.

    The tightest limit of its cgroups counts; without a limit, its processes are compared with the
    whole machine (the CPUs it may run on), and memory that they share counts for each of them.
    """

    def __init__(
        self,
        pid: int,
        *,
        root: Path = Path("/"),
        clock: Callable[[], float] = time.monotonic,
        cpus: Callable[[], int] = lambda: len(os.sched_getaffinity(0)),
    ) -> None:
        self._pid = pid
        self._root = root
        self._clock = clock
        self._cpus = cpus
        self._read_at = -SAMPLE_SECONDS
        self._spent: list[tuple[float, float]] = []
        self._sample = Sample()

    def sample(self) -> Sample:
        """Return the usage, which is read again only every few seconds."""
        now = self._clock()
        elapsed = now - self._read_at
        if elapsed >= SAMPLE_SECONDS:
            levels = list(_levels(self._pid, self._root))
            processes = list(self._processes())
            spent = self._cpu_spent(levels, processes)
            self._sample = Sample(
                cpu=_cpu_share(self._spent, spent, elapsed),
                memory=self._memory_share(levels, processes),
            )
            self._read_at, self._spent = now, spent
        return self._sample

    def _cpu_spent(
        self, levels: Iterable[Level], processes: Iterable[list[str]]
    ) -> list[tuple[float, float]]:
        """Return the CPU seconds so far, and the number of CPUs, for each cgroup with a limit."""
        cpus = float(self._cpus())
        limited = [
            (level.cpu_seconds, min(level.cpu_limit, cpus))
            for level in levels
            if level.cpu_seconds is not None and level.cpu_limit is not None
        ]
        if limited:
            return limited
        ticks = sum(int(ticks) for fields in processes for ticks in fields[_CPU_TIMES])
        return [(ticks / os.sysconf("SC_CLK_TCK"), cpus)]

    def _memory_share(
        self, levels: Iterable[Level], processes: Iterable[list[str]]
    ) -> float | None:
        whole = _in_meminfo("MemTotal", _content(self._root / "proc/meminfo"))
        shares = [
            level.memory_bytes / min(level.memory_limit_bytes, whole)
            for level in levels
            if level.memory_bytes is not None and level.memory_limit_bytes
        ]
        pages = sum(int(fields[_RESIDENT_PAGES]) for fields in processes)
        if not shares and whole < float("inf"):
            shares = [pages * os.sysconf("SC_PAGE_SIZE") / whole]
        return min(1.0, max(shares)) if shares else None

    def _processes(self) -> Iterator[list[str]]:
        """Yield the fields of /proc/PID/stat after the name, of each process of the worker."""
        found = [self._pid]
        for pid in found:
            directory = self._root / "proc" / str(pid)
            stat = _content(directory / "stat")
            if not stat:  # it has ended just now
                continue
            yield stat.rpartition(")")[2].split()
            with suppress(OSError):
                for task in (directory / "task").iterdir():
                    found += map(int, _content(task / "children").split())


def memory_left(pid: int, root: Path = Path("/")) -> float:
    """Return the bytes left in a process's cgroups and in the machine, whichever is less."""
    of_the_machine = _in_meminfo("MemAvailable", _content(root / "proc/meminfo"))
    left = (
        level.memory_limit_bytes - level.memory_bytes
        for level in _levels(pid, root)
        if level.memory_bytes is not None and level.memory_limit_bytes is not None
    )
    return min((of_the_machine, *left))


def oom_kills(pid: int, root: Path = Path("/")) -> int | None:
    """Return how many processes the kernel has killed for memory in a process's cgroup."""
    paths = cgroup.paths(_content(root / f"proc/{pid}/cgroup"))
    mount = root / "sys/fs/cgroup"
    events = _content(mount / paths.get("", "/")[1:] / "memory.events")
    old = _content(mount / "memory" / paths.get("memory", "/")[1:] / "memory.oom_control")
    return cgroup.oom_kills(events or old)


def _levels(pid: int, root: Path) -> Iterator[Level]:
    paths = cgroup.paths(_content(root / f"proc/{pid}/cgroup"))
    mount = root / "sys/fs/cgroup"
    if not (mount / "memory").is_dir():
        for path in cgroup.with_parents(paths.get("", "/")):
            yield cgroup.level_v2(_contents(mount / path[1:], _V2_FILES))
        return
    for controller in ("cpu", "memory"):
        for path in cgroup.with_parents(paths.get(controller, "/")):
            yield cgroup.level_v1(_v1_contents(mount, controller, path[1:]))


def _v1_contents(mount: Path, controller: str, path: str) -> dict[str, str]:
    names = ("cpu", "cpuacct") if controller == "cpu" else (controller,)
    return {
        file: content
        for name in names
        for file, content in _contents(mount / name / path, _V1_FILES[name]).items()
    }


def _cpu_share(
    before: list[tuple[float, float]], now: list[tuple[float, float]], elapsed: float
) -> float | None:
    if len(before) != len(now):  # the first sample, or moved to another cgroup
        return None
    shares = [
        (seconds - seconds_before) / (elapsed * cpus)
        for (seconds_before, _), (seconds, cpus) in zip(before, now, strict=True)
    ]
    return min(1.0, max(0.0, *shares))


def _in_meminfo(name: str, meminfo: str) -> float:
    for line in meminfo.splitlines():
        if line.startswith(f"{name}:"):
            return float(line.split()[1]) * 1024
    return float("inf")


def _contents(directory: Path, names: Iterable[str]) -> Mapping[str, str]:
    return {name: content for name in names if (content := _content(directory / name))}


def _content(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
