"""The CPUs that this process may use: in a container with a limit, fewer than the machine's."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

ROOT = Path("/")


def usable_cpus(root: Path = ROOT) -> float:
    """Return the CPUs by affinity, or by the tightest quota of this process's cgroups."""
    return min([len(os.sched_getaffinity(0)), *_quotas(root)])


def _quotas(root: Path) -> Iterator[float]:
    cgroups = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _along(cgroups, path, _quota_v2)
        elif "cpu" in controllers.split(","):
            yield from _along(cgroups / "cpu", path, _quota_v1)


def _along(mounted: Path, path: str, quota: Callable[[Path], float | None]) -> Iterator[float]:
    """Yield the quotas of a cgroup and its parents, as far as they are mounted in the container."""
    for part in (PurePosixPath(path), *PurePosixPath(path).parents):
        if cpus := quota(mounted / part.relative_to("/")):
            yield cpus


def _quota_v2(cgroup: Path) -> float | None:
    match [line.split() for line in _lines(cgroup / "cpu.max")]:
        case [[quota, period]] if quota != "max":
            return int(quota) / int(period)
    return None


def _quota_v1(cgroup: Path) -> float | None:
    quota, period = _lines(cgroup / "cpu.cfs_quota_us"), _lines(cgroup / "cpu.cfs_period_us")
    if not quota or not period or int(quota[0]) <= 0:
        return None
    return int(quota[0]) / int(period[0])


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
