"""`Kept`: what a script sees of its kept state."""

import logging
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from statistics import median
from typing import TypeVar

from spotrun_trainer.hooks.notice import notice
from spotrun_trainer.kept import exchange
from spotrun_trainer.kept.image import Writer
from spotrun_trainer.kept.node_copy import NodeCopy
from spotrun_trainer.kept.position import Position
from spotrun_trainer.process.rng import seed_all

log = logging.getLogger(__name__)

Batch = TypeVar("Batch")

MEASURED_STEPS = 20
HIGH_PERCENT = 5.0
"""A share of the training's time that is worth a line in the log."""


class Kept:
    """A state that is kept; `keep` makes it."""

    def __init__(
        self,
        writer: Writer,
        copy: NodeCopy,
        *,
        step: int,
        position: Position,
        every: int,
        seed: int | None,
    ) -> None:
        self._writer = writer
        self._copy = copy
        self._step = step
        self._position = position
        self._every = every
        self._seed = seed
        self._is_writer = os.environ.get("LOCAL_RANK", "0") == "0"
        self._cost = _Cost(every)
        header = copy.header()
        if step and (header is None or header.step != step):
            self._copy_state()  # it came from a peer or a file; now this worker has it as well
        self._draw_anew()

    @property
    def step(self) -> int:
        """The steps that are done: the loop continues with this one, counted from 0."""
        return self._step

    @property
    def epoch(self) -> int:
        """The epochs that are done, if the loop uses `epochs` and `batches`."""
        return self._position.epoch

    def save(self, step: int | None = None) -> None:
        """Note that a step is done, on all processes, and keep the state as it is now.

        `step` is the number of steps that are done now; by default one more than before. With
        `keep(every=k)` only each k-th is copied, and each one while there is a notice.
        """
        self._step = self._step + 1 if step is None else step
        if self._copy.is_there and self._is_due():
            began = time.perf_counter()
            self._copy_state()
            self._cost.note(began, time.perf_counter())
        self._draw_anew()

    def steps(self, total: int) -> Iterator[int]:
        """Yield the steps that are left, counted from 0, and save after each."""
        while self._step < total:
            yield self._step
            self.save()

    def epochs(self, total: int) -> Iterator[int]:
        """Yield the epochs that are left, counted from 0; one that has begun comes first."""
        while self._position.epoch < total:
            yield self._position.epoch
            self._position.end_epoch()

    def batches(self, loader: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches of this epoch that are left, each one a step, and save after each.

        Batches that are done are loaded, and thrown away.
        """
        processes = exchange.world_size()
        self._position.resume(processes)
        skipped = self._position.skipped(processes)
        # A loader that shuffles draws its order at the first batch, so the seed is the same each
        # time.
        self._draw_anew(epoch=self._position.epoch)
        left = iter(loader)
        for _ in islice(left, skipped):
            pass
        if skipped:
            self._draw_anew()
        for batch in left:
            yield batch
            self._position.advance(processes)
            self.save()

    def _copy_state(self) -> None:
        if self._is_writer and self._copy.is_there:
            image = self._writer.image({"position": self._position.to_json()})
            self._copy.write(self._step, image)

    def _is_due(self) -> bool:
        return self._step % self._every == 0 or notice() is not None

    def _draw_anew(self, epoch: int | None = None) -> None:
        """Seed random numbers for the next step, or for an epoch's order, the same after a loss."""
        if self._seed is not None:
            number = self._step if epoch is None else -1 - epoch
            seed_all(self._seed, number, exchange.rank())


class _Cost:
    """The share of the time that copying takes; it is logged once, if it is high."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._copies = deque[float](maxlen=MEASURED_STEPS)
        self._periods = deque[float](maxlen=MEASURED_STEPS)
        self._last_end: float | None = None
        self._is_said = False

    def note(self, began: float, ended: float) -> None:
        """Note when a copy began and ended."""
        if self._is_said:
            return
        if self._last_end is not None:
            self._copies.append(ended - began)
            self._periods.append(ended - self._last_end)
        self._last_end = ended
        if len(self._copies) == MEASURED_STEPS:
            self._is_said = True
            self._say(median(self._copies), median(self._periods))

    def _say(self, copy: float, period: float) -> None:
        percent = 100 * copy / period
        if percent > HIGH_PERCENT:
            step = max(period - copy, 1e-6) / self._every
            every = max(round(copy * (100 / HIGH_PERCENT - 1) / step), self._every + 1)
            log.warning(
                "keeping the state takes %.0f ms, %.0f %% of the time: with keep(every=%d) it is "
                "%.0f %%, and a loss without notice costs up to %d steps",
                *(1000 * copy, percent, every, HIGH_PERCENT, every - 1),
            )
