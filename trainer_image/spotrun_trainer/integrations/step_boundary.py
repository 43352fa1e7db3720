"""The boundary between two steps of a loop of others: all ranks agree on whether to save and end.

A planned change tells the processes of a job by SIGTERM, each at a moment of its own. All of them
have to save after the same step, so they agree, over a group of their own on the hosts: NCCL's
would wait for the device. The agreement is asked for about twice a second, not at each of many
short steps, and the number of steps in between is agreed upon with it.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from enum import IntEnum
from types import FrameType
from typing import Any, NamedTuple, NoReturn

import torch
import torch.distributed as dist

from spotrun_trainer.hooks.notice import Notice, notice

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
MOST_STEPS = 64
"""The most steps between two agreements: steps may become longer at any time."""
LATE_SECONDS = 15.0
"""A notice that is no longer calls for a save by itself. The operator ends a script 30 s before its
node goes, so this is for the case that it does not; what a save takes, twice, is added."""


class Order(IntEnum):
    """The answer to the question what is to be done at a boundary; the greatest of all ranks."""

    GO_ON = 0
    SAVE = 1
    SAVE_AND_END = 2


class Ballot(NamedTuple):
    """A rank's part of the agreement, in which the greatest of each value counts."""

    order: Order = Order.GO_ON
    has_notice: bool = False
    step_seconds: float = 0.0


class StepBoundary:
    """Asked by all ranks after each step; outside of a TrainingJob it always says: go on."""

    def __init__(
        self,
        *,
        env: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
        look_for_notice: Callable[[], Notice | None] = notice,
    ) -> None:
        self._is_in_job = bool(env.get("SPOTRUN_DIR"))
        self._clock = clock
        self._look_for_notice = look_for_notice
        self._is_told_to_end = False
        self._handler_before: Any = None
        self._group: dist.ProcessGroup | None = None
        self._steps_left = self._steps_between = 1
        self._looked_at = 0.0
        self._save_seconds: float | None = None  # the longest so far; None: nobody knows yet
        self._has_to_save_for_notice = False
        self._has_saved_for_notice = False

    def open(self) -> None:
        """Handle SIGTERM from here on, and open the ranks' group; call it in all of them."""
        if not self._is_in_job:
            return
        if threading.current_thread() is threading.main_thread():
            # In place of a framework's own: Lightning's waits for other ranks inside of it.
            self._take_over(signal.signal(signal.SIGTERM, self._told))
        else:
            log.warning("no save on SIGTERM: only the main thread of Python can handle a signal")
        if self._group is None and dist.is_initialized() and dist.get_world_size() > 1:
            group = dist.new_group(backend="gloo")
            assert isinstance(group, dist.ProcessGroup), "it is of all ranks"
            self._group = group
        self._steps_left = self._steps_between = 1
        self._looked_at = self._clock()

    def look(self) -> Order:
        """Return what to do after this step; it is the same in all ranks."""
        self._steps_left -= 1
        if not self._is_in_job or self._steps_left > 0:
            return Order.GO_ON
        now = self._clock()
        told = self._look_for_notice()
        order = Order.SAVE_AND_END if self._is_told_to_end else self._asked_by(told)
        step_seconds = (now - self._looked_at) / self._steps_between
        agreed = self._agree(Ballot(order, told is not None, step_seconds))
        self._looked_at = now
        self._steps_left = self._steps_between = steps_between(
            agreed.step_seconds, self._steps_between
        )
        self._has_to_save_for_notice = agreed.has_notice and agreed.order is not Order.GO_ON
        self._has_saved_for_notice = agreed.has_notice and self._has_saved_for_notice
        return agreed.order

    def saved(self, seconds: float | None) -> None:
        """Take in that a save was made, and how long it has taken; None if that is not known.

        What was ordered is asked for again until then: a framework may leave out a save.
        """
        if seconds is not None:
            self._save_seconds = max(self._save_seconds or 0.0, seconds)
        self._has_saved_for_notice = self._has_saved_for_notice or self._has_to_save_for_notice
        self._has_to_save_for_notice = False

    def end(self, step: int) -> NoReturn:
        """End this process, once all ranks have saved; what comes after the training is not run."""
        self.wait_for_all()
        log.warning("saved after step %d, and ended: the job's workers are about to change", step)
        raise SystemExit(0)

    def wait_for_all(self) -> None:
        """Return once all ranks are here, also outside of a job."""
        if dist.is_initialized():
            dist.barrier(group=self._group)

    def is_so_for_any(self, holds: bool) -> bool:
        """Whether something holds in at least one rank; asked by all, also outside of a job."""
        if not dist.is_initialized():
            return holds
        said = [holds] * dist.get_world_size()
        dist.all_gather_object(said, holds, group=self._group)
        return any(said)

    def close(self) -> None:
        """Leave SIGTERM to whoever handled it before."""
        if self._handler_before is not None:
            signal.signal(signal.SIGTERM, self._handler_before)
            self._handler_before = None
        if self._group is not None:
            dist.destroy_process_group(self._group)
            self._group = None

    def _take_over(self, before: Any) -> None:  # noqa: ANN401 - whatever handled it
        """Keep what handled SIGTERM before; a training that raised has not closed its boundary."""
        of = getattr(before, "__self__", None)
        if not isinstance(of, StepBoundary):
            self._handler_before = before
        elif of is not self:
            self._take_from(of)

    def _take_from(self, other: "StepBoundary") -> None:
        # Of its own class, and it is told nothing any more.
        self._handler_before, other._handler_before = other._handler_before, None  # noqa: SLF001
        self._is_told_to_end = self._is_told_to_end or other._is_told_to_end  # noqa: SLF001

    def _told(self, _number: int, _frame: FrameType | None) -> None:
        self._is_told_to_end = True

    def _asked_by(self, told: Notice | None) -> Order:
        if told is None or self._has_saved_for_notice:
            return Order.GO_ON
        return asked_by_notice(told.seconds_left, self._save_seconds)

    def _agree(self, ballot: Ballot) -> Ballot:
        if self._group is None:
            return ballot
        votes = torch.tensor(ballot, dtype=torch.float64)
        dist.all_reduce(votes, op=dist.ReduceOp.MAX, group=self._group)
        order, has_notice, step_seconds = votes.tolist()
        return Ballot(Order(int(order)), bool(has_notice), step_seconds)


def steps_between(step_seconds: float, before: int) -> int:
    """Return after how many steps to look again; it grows slowly, as a first step may be short."""
    fitting = int(LOOK_SECONDS / step_seconds) if step_seconds > 0 else MOST_STEPS
    return max(1, min(fitting, 2 * before, MOST_STEPS))


def asked_by_notice(seconds_left: float, save_seconds: float | None) -> Order:
    """Return what a notice asks for: a save, as late as is safe; at once if none was ever made."""
    if save_seconds is None or seconds_left <= LATE_SECONDS + 2 * save_seconds:
        return Order.SAVE
    return Order.GO_ON
