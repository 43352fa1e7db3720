"""Counting steps by what optimizers do. Pure: the time is an argument.

A step begins when an optimizer steps that has already stepped in the present one. So of several
optimizers the one that steps most often counts, and one per layer counts once. An optimizer that
was dropped no longer belongs to a step. One that is stepped group by group, each time with other
parameters in its first group, counts as several. Without an optimizer's step nothing is counted: a
microbatch whose gradients are only added up, or an update that a GradScaler skips.
"""

from collections import deque
from statistics import median
from weakref import ref

WINDOW_STEPS = 20
"""The length of a typical step is taken from the same number of steps as in a `Run`."""


class StepCounter:
    """The steps of one process."""

    def __init__(self) -> None:
        self.counted = 0
        self.done_before = 0  # steps that were done before this process, as the script says
        self._stepped: dict[tuple[int, int], tuple[ref[object], ref[object]]] = {}
        self._began_at: int | None = None
        self._lengths = deque[int](maxlen=WINDOW_STEPS)

    @property
    def step(self) -> int:
        """The number of steps that are done."""
        return self.counted + self.done_before

    def optimizer_stepped(self, optimizer: object, now: int) -> bool:
        """Note that an optimizer has stepped; return whether that counts as another step."""
        parameter = _first_parameter(optimizer)
        key, both = (id(optimizer), id(parameter)), (ref(optimizer), ref(parameter))
        before = self._stepped.get(key)
        if not (before and _is_there(before)) and self._is_in_a_step():
            self._stepped[key] = both
            return False
        self._stepped = {key: both}
        self._count(now)
        return True

    def is_at(self, step: int, now: int) -> bool:
        """Note how many steps the script says are done; return whether that is new."""
        if self._is_in_a_step() or self._began_at is None:
            # Optimizers are counted, or nothing is known yet: the script says from where on to
            # count.
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

    def _is_in_a_step(self) -> bool:
        """Whether an optimizer has stepped that is still there."""
        return any(_is_there(both) for both in self._stepped.values())

    def _count(self, now: int, steps: int = 1) -> None:
        # Slow work before the first step (loading, compiling) is not part of a step.
        if self.counted and self._began_at is not None:
            self._lengths.append((now - self._began_at) // steps)
        self.counted += steps
        self._began_at = now


def _is_there(both: tuple[ref[object], ref[object]]) -> bool:
    return all(one() is not None for one in both)


def _first_parameter(optimizer: object) -> object:
    """Return the first parameter of an optimizer's first group; itself if it has none."""
    for group in getattr(optimizer, "param_groups", ()):
        for parameter in group["params"]:
            found: object = parameter
            return found
        break
    return optimizer
