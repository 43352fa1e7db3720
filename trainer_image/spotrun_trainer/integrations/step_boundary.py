"""The boundary between two steps of another framework's loop: all ranks agree on save and end.

Before a planned change each process of a job gets a SIGTERM, not all at the same moment. All of
them have to save after the same step, so they agree, over their own group on the CPU: NCCL's would
wait for the device. They do so about twice a second, not at each of many short steps, and agree on
the number of steps until the next time as well.
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
"""A notice with no more time than this left asks for a save. The operator ends a script 30
s before its node goes, so this is for the case that it does not; twice the time of a save is
added."""


class Order(IntEnum):
    """The action of a process at a boundary; the greatest value of all ranks counts."""

    GO_ON = 0
    SAVE = 1
    SAVE_AND_END = 2


class Ballot(NamedTuple):
    """A rank's part of the agreement, in which the greatest value of each field counts."""

    order: Order = Order.GO_ON
    has_notice: bool = False
    step_seconds: float = 0.0


class StepBoundary:
    """Asked by all ranks after each step; outside of a TrainingJob it always answers: continue."""

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
        self._save_seconds: float | None = None  # the longest so far; None: not known yet
        self._has_to_save_for_notice = False
        self._has_saved_for_notice = False

    def open(self) -> None:
        """Handle SIGTERM from here on, and open the ranks' group; call it in all of them."""
        if not self._is_in_job:
            return
        if threading.current_thread() is threading.main_thread():
            # It replaces a framework's own handler: Lightning's waits for other ranks inside of it.
            self._take_over(signal.signal(signal.SIGTERM, self._told))
        else:
            log.warning(
                "this script does not save on SIGTERM: only Python's main thread can handle a "
                "signal"
            )
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
        """Note that a save was made, and how long it took; None if that is not known.

        Until then an ordered save is asked for again, because a framework may leave one out.
        """
        if seconds is not None:
            self._save_seconds = max(self._save_seconds or 0.0, seconds)
        self._has_saved_for_notice = self._has_saved_for_notice or self._has_to_save_for_notice
        self._has_to_save_for_notice = False

    def end(self, step: int) -> NoReturn:
        """End this process, once all ranks have saved; code after the training does not run."""
        self.wait_for_all()
        log.warning(
            "saved after step %d; this process ends, because the job's workers are about to change",
            step,
        )
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
        """Restore the earlier handler of SIGTERM."""
        if self._handler_before is not None:
            signal.signal(signal.SIGTERM, self._handler_before)
            self._handler_before = None
        if self._group is not None:
            dist.destroy_process_group(self._group)
            self._group = None

    def _take_over(self, before: Any) -> None:  # noqa: ANN401 - any handler
        """Keep the earlier handler of SIGTERM; a training that raised left its boundary open."""
        of = getattr(before, "__self__", None)
        if not isinstance(of, StepBoundary):
            self._handler_before = before
        elif of is not self:
            self._take_from(of)

    def _take_from(self, other: "StepBoundary") -> None:
        # It is of this class, and gets no signals any more.
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
    """Return after how many steps to ask again; it grows slowly, as a first step may be short."""
    fitting = int(LOOK_SECONDS / step_seconds) if step_seconds > 0 else MOST_STEPS
    return max(1, min(fitting, 2 * before, MOST_STEPS))


def asked_by_notice(seconds_left: float, save_seconds: float | None) -> Order:
    """Return what a notice asks for: a save, as late as is safe; at once if there was none."""
    if save_seconds is None or seconds_left <= LATE_SECONDS + 2 * save_seconds:
        return Order.SAVE
    return Order.GO_ON
