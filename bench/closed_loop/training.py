"""A virtual training: whole steps, one after the other, in worlds of the given size.

It reports the same as our trainer's meter: the duration and the shares of the last 20 steps of this
world.
"""

from collections import deque
from math import inf
from random import Random
from statistics import median

from bench.closed_loop.curves import Load
from spotrun_trainer.telemetry.meter import WINDOW_STEPS, Recent, StepTimes


class Training:
    """A job's steps."""

    def __init__(self, load: Load, total_steps: int, checkpoint_seconds: float, seed: int) -> None:
        self.now = 0.0
        self.done, self.total_steps = 0, total_steps
        self.world = 0  # the number of worlds so far
        self.size = 0  # of the present world; 0: no worker trains
        self.steps_here = 0
        self.lost_steps = 0
        self._load, self._dice = load, Random(seed)  # noqa: S311 - the same steps each time
        self._checkpoint_seconds = checkpoint_seconds
        self._saved, self._saved_at = 0, 0.0
        self._steps = deque[StepTimes](maxlen=WINDOW_STEPS)
        self._step: StepTimes | None = None
        self._ended_at, self._ends_at = 0.0, inf

    @property
    def share_done(self) -> float:
        """The share of the work that is done."""
        return self.done / self.total_steps

    @property
    def is_complete(self) -> bool:
        """Whether all work is done."""
        return self.done >= self.total_steps

    @property
    def is_between_steps(self) -> bool:
        """Whether a change now loses no step."""
        return not self.size or self.now == self._ended_at

    @property
    def recent(self) -> Recent | None:
        """The last steps of this world; None before there are any."""
        whole = sum(step.seconds for step in self._steps)
        if not whole:
            return None
        parts = list(zip(*self._steps, strict=True))[:3]
        compute, data, communicate = (sum(part) / whole for part in parts)
        return Recent(median(step.seconds for step in self._steps), compute, data, communicate)

    def enter(self, size: int, stall_seconds: float) -> None:
        """Continue in a world of another size."""
        self.world, self.size, self.steps_here = self.world + 1, size, 0
        self._steps.clear()
        self._begin(self.now + stall_seconds)

    def save(self) -> None:
        """Save the steps that are done."""
        self._saved, self._saved_at = self.done, self.now

    def lose(self) -> None:
        """Lose the steps that were not saved."""
        self.lost_steps += self.done - self._saved
        self.done = self._saved

    def advance(self, until: float, boundary_after: float) -> None:
        """Train until a moment; or to the end of the first step that ends after another moment.

        A step that is unfinished at `until` continues later, or `enter` gives it up.
        """
        while self._ends_at <= until:
            self.now = self._ends_at
            self._finish()
            if self.is_complete or self.now >= boundary_after:
                return
        self.now = until if self.size else min(until, boundary_after)

    def _begin(self, moment: float) -> None:
        self._ends_at = inf
        if self.size and not self.is_complete:
            curve = self._load.at(self.share_done)
            self._step = curve.noisy_step(self.size, self._dice)
            self._ends_at = moment + self._step.seconds

    def _finish(self) -> None:
        assert self._step is not None, "a step ends"
        self._ended_at = self.now
        self.done += 1
        self.steps_here += 1
        self._steps.append(self._step)
        if self.now - self._saved_at >= self._checkpoint_seconds or self.is_complete:
            self.save()
        self._begin(self.now)
