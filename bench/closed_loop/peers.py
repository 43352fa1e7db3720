"""Other policies for the number of workers: a fixed number, or the rule of an HPA.

They run training like stock torchrun: a change is a restart of all processes. Planned changes get a
checkpoint first, so only losses lose steps, which is better than in reality.

The rule is that of an HPA of `autoscaling/v2` with its defaults: it checks every 15 s, wants
`ceil(pods x utilization / target)`, does nothing within 10 % of the target, counts pods that are
not ready as idle when it would grow, adds at most 4 pods or doubles the pods in 15 s, and removes
only as many as all its recommendations of the last five minutes allow.
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
    """A gang of one size: while it cannot get all nodes it waits, and pays nothing."""

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
    """A job that takes every available node, up to a size."""

    size: int
    stall_seconds: float
    keeps_state: bool = False
    is_gang: bool = False
    every_seconds: float = 60.0

    def wanted(self, _look: Look) -> int:
        """Return the maximum size, always."""
        return self.size


@dataclass
class Hpa:
    """An HPA over utilization; training restarts at every change, but loses no steps by that.

    With `sees_waiting` it gets the GPUs' own metrics (NVML, DCGM), in which a kernel that waits for
    the network looks busy. Without it the HPA gets the compute share, as ours does.
    """

    least: int
    most: int
    stall_seconds: float
    sees_waiting: bool = False
    target: float = TARGET
    start: int = 0  # 0: the minimum
    keeps_state: bool = False
    is_gang: bool = False
    every_seconds: float = 15.0
    _advised: deque[tuple[float, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._wanted = self.start or self.least
        self._advised.append((0.0, self._wanted))  # as the controller does at its first check

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
        if ratio > 1 and look.unready:  # as if they were idle
            ratio *= look.training / (look.training + look.unready)
            if ratio < 1:
                return self._wanted
            advised = ceil(ratio * (look.training + look.unready))
        else:
            advised = ceil(ratio * look.training)
        return self._wanted if abs(ratio - 1) <= _TOLERANCE else advised
