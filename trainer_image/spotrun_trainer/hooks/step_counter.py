"""Counting steps by what optimizers do. Pure: the time is an argument.

A step begins when an optimizer steps that has already stepped in the present one. So of several
optimizers the one that steps most often counts, and one for each layer counts once. An optimizer
that was dropped no longer belongs to a step. What makes no optimizer step counts nothing: a
microbatch of which gradients are only added up, or an update that a GradScaler skips.
"""

from collections import deque
from statistics import median
from weakref import WeakSet

WINDOW_STEPS = 20
"""As many as a `Run` takes the length of a typical step from."""


class StepCounter:
    """The steps of one process."""

    def __init__(self) -> None:
        self.counted = 0
        self.done_before = 0  # steps that were done before this process, as the script says
        self._stepped = WeakSet[object]()
        self._began_at: int | None = None
        self._lengths = deque[int](maxlen=WINDOW_STEPS)

    @property
    def step(self) -> int:
        """The number of steps that are done."""
        return self.counted + self.done_before

    def optimizer_stepped(self, optimizer: object, now: int) -> bool:
        """Take in that an optimizer has stepped; return whether that counts as another step."""
        stepped = self._stepped
        if optimizer not in stepped and len(stepped):
            stepped.add(optimizer)
            return False
        stepped.clear()
        stepped.add(optimizer)
        self._count(now)
        return True

    def is_at(self, step: int, now: int) -> bool:
        """Take in that the script says how many steps are done; return whether that is news."""
        if self._stepped or self._began_at is None:
            # Optimizers are counted, or nothing is known yet: it says from where on to count.
            self.done_before = step - self.counted
            self._began_at = self._began_at or now
            return False
        if step <= self.step:
            return False
        self._count(now, step - self.step)
        return True

    def step_seconds(self) -> float | None:
        """Return the length of a typical step; None before there are two."""
        return median(self._lengths) / 1e9 if self._lengths else None

    def _count(self, now: int, steps: int = 1) -> None:
        # What takes long before the first step (loading, compiling) is no part of a step.
        if self.counted and self._began_at is not None:
            self._lengths.append((now - self._began_at) // steps)
        self.counted += steps
        self._began_at = now
