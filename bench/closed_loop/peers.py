"""Others that say how many workers a job has: one number for ever, or an HPA's rule.

They run training as stock torchrun does: a change is a restart of all processes. Changes that are
planned are given a checkpoint first, so only losses lose steps; that flatters them.

The HPA's is that of `autoscaling/v2` with its defaults: it looks every 15 s, wants
`ceil(pods x utilization / target)`, does nothing within 10 % of the target, counts pods that are
not ready yet as doing nothing when that speaks against growth, adds at most 4 pods or as many as
there are in 15 s, and takes away no more than five minutes of its own recommendations agree on.
"""

from collections import deque
from dataclasses import dataclass, field
from math import ceil

from bench.closed_loop.loop import Look

TARGET = 0.7
_TOLERANCE = 0.1
_DOWN_AFTER_SECONDS = 300.0
_ADDED_AT_LEAST = 4


@dataclass
class Fixed:
    """A gang of one size: while it is not to be had it waits, and pays nothing."""

    size: int
    stall_seconds: float
    keeps_state: bool = False
    is_gang: bool = True
    every_seconds: float = 60.0

    def wanted(self, look: Look) -> int:
        """All of them or none."""
        return self.size if look.offered >= self.size else 0


@dataclass
class Elastic:
    """A job that takes every node to be had, up to a size."""

    size: int
    stall_seconds: float
    keeps_state: bool = False
    is_gang: bool = False
    every_seconds: float = 60.0

    def wanted(self, _look: Look) -> int:
        """Return always the same size."""
        return self.size


@dataclass
class Hpa:
    """An HPA over utilization; training restarts at every change, but loses nothing by it.

    `sees_waiting` is what it knows of GPUs by their own word (NVML, DCGM): that a kernel waits for
    the network there looks like work. Without it the HPA gets the compute share, as ours does.
    """

    least: int
    most: int
    stall_seconds: float
    sees_waiting: bool = False
    target: float = TARGET
    start: int = 0  # 0: as few as are allowed
    keeps_state: bool = False
    is_gang: bool = False
    every_seconds: float = 15.0
    _advised: deque[tuple[float, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._wanted = self.start or self.least
        self._advised.append((0.0, self._wanted))  # as the controller does at its first look

    def wanted(self, look: Look) -> int:
        """Return the size that the controller manager would write to `/scale`."""
        advised = min(max(self._advise(look), self.least), self.most)
        self._advised.append((look.now, advised))
        while self._advised[0][0] <= look.now - _DOWN_AFTER_SECONDS:
            self._advised.popleft()
        if advised < self._wanted:
            highest = max(one for _, one in self._advised)
            self._wanted = min(highest, self._wanted)
        else:
            most_at_once = max(2 * self._wanted, self._wanted + _ADDED_AT_LEAST)
            self._wanted = min(advised, most_at_once)
        return self._wanted

    def _advise(self, look: Look) -> int:
        recent = look.recent
        if recent is None:
            return self._wanted
        busy = recent.compute + (recent.communicate if self.sees_waiting else 0.0)
        ratio = busy / self.target
        if ratio > 1 and look.unready:  # as if they did nothing
            ratio *= look.training / (look.training + look.unready)
            if ratio < 1:
                return self._wanted
            advised = ceil(ratio * (look.training + look.unready))
        else:
            advised = ceil(ratio * look.training)
        return self._wanted if abs(ratio - 1) <= _TOLERANCE else advised
