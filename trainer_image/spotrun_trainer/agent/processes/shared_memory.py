"""Shared memory that ran out: how that looks from outside, and what to write in the template.

A container has 64 MB of it unless a volume is mounted there. A DataLoader's worker that finds it
full gets SIGBUS, and its script sees a dead worker or a lost connection.
"""

import os
import re
from dataclasses import dataclass

FOLDER = "/dev/shm"  # noqa: S108 - it is the kernel's
_MOST_USED = 0.75  # a worker that has died has given back what it was writing
_SAID = re.compile(
    r"(insufficient|out of|allocate) shared memory|(write to|resize) file </?torch_\d+",
    re.IGNORECASE,
)
"""The words of torch, in its C++ and in its DataLoader."""
_BUS_ERROR = re.compile(r"SIGBUS|bus error", re.IGNORECASE)


@dataclass(frozen=True)
class SharedMemory:
    """The use of shared memory, in bytes."""

    used: int
    size: int

    @property
    def is_nearly_full(self) -> bool:
        """Whether another batch may not have fitted in."""
        return self.used > self.size * _MOST_USED


def measure(folder: str = FOLDER) -> SharedMemory | None:
    """Return how much is used now; None if there is no shared memory."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    size = found.f_blocks * found.f_frsize
    return SharedMemory(size - found.f_bavail * found.f_frsize, size)


def advice(said: str, output: str, memory: SharedMemory | None) -> str:
    """Say what to do if a process ended because shared memory ran out; empty for other causes.

    said     what is known of its end
    output   what it and its loader's workers printed last
    """
    ran_out = f"{said}\n{output}"
    is_named = _SAID.search(ran_out) is not None
    is_likely = memory is not None and memory.is_nearly_full and _BUS_ERROR.search(ran_out)
    if not is_named and not is_likely:
        return ""
    now = "" if memory is None else f" (now {_mb(memory.used)} of {_mb(memory.size)} MB are used)"
    return (
        f"shared memory is full{now}: mount an emptyDir with medium Memory at {FOLDER}, or use "
        "fewer loader workers or smaller batches"
    )


def _mb(number: int) -> str:
    return f"{number / 1e6:.0f}"
