"""A container's limits and usage, from the kernel's files, for cgroup v1 and v2.

Pure functions of what the files contain; `container_usage` reads them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_V1_UNLIMITED_BYTES = 2**60  # v1 writes "none" as the largest number of whole pages
_NANOSECONDS = 1_000_000_000  # of a second
_MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Level:
    """One of the cgroups that a process is in: its usage and its limits."""

    cpu_seconds: float | None = None  # used since it was made
    cpu_limit: float | None = None  # CPUs; None: no limit
    memory_bytes: float | None = None  # used, without pages that the kernel can drop at once
    memory_limit_bytes: float | None = None


def paths(proc_cgroup: str) -> dict[str, str]:
    """Return a process's cgroup by controller, from /proc/self/cgroup; "" is the path for v2."""
    found = {}
    for line in proc_cgroup.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def with_parents(path: str) -> list[str]:
    """Return a cgroup's path and its parents', up to the root: a limit on any of them counts."""
    parts = [part for part in path.split("/") if part]
    return ["/" + "/".join(parts[:depth]) for depth in range(len(parts), -1, -1)]


def level_v2(files: Mapping[str, str]) -> Level:
    """Return a level from the content of its files by name; files may be missing."""
    quota, _, period = files.get("cpu.max", "max").strip().partition(" ")
    limit = files.get("memory.max", "max").strip()
    used = _field(files.get("cpu.stat", ""), "usage_usec")
    return Level(
        cpu_seconds=None if used is None else used / _MICROSECONDS,
        cpu_limit=None if quota == "max" else float(quota) / float(period),
        memory_bytes=_working_set(files, "memory.current", "inactive_file"),
        memory_limit_bytes=None if limit == "max" else float(limit),
    )


def level_v1(files: Mapping[str, str]) -> Level:
    """Return a level from the content of its files by name, of all controllers together."""
    quota = float(files.get("cpu.cfs_quota_us", "-1"))
    period = float(files.get("cpu.cfs_period_us", "100000"))
    limit = float(files.get("memory.limit_in_bytes", "inf"))
    used = files.get("cpuacct.usage")
    return Level(
        cpu_seconds=None if used is None else float(used) / _NANOSECONDS,
        cpu_limit=None if quota <= 0 else quota / period,
        memory_bytes=_working_set(files, "memory.usage_in_bytes", "total_inactive_file"),
        memory_limit_bytes=None if limit >= _V1_UNLIMITED_BYTES else limit,
    )


def oom_kills(events: str) -> int | None:
    """Return the count of processes killed for memory, from memory.events (v1: oom_control)."""
    killed = _field(events, "oom_kill")
    return None if killed is None else int(killed)


def _working_set(files: Mapping[str, str], usage: str, droppable: str) -> float | None:
    # As the kubelet counts it: the page cache of files read long ago does not count.
    if usage not in files:
        return None
    return max(0.0, float(files[usage]) - (_field(files.get("memory.stat", ""), droppable) or 0.0))


def _field(text: str, name: str) -> float | None:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return float(value)
    return None
