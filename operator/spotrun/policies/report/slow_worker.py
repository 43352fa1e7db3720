"""A slow worker: it takes much longer than the others for its part of a step, and all wait for it.

A worker's own time is the part of a step in which it computes or waits for its data; the rest is
waiting for others. Times are compared where parts of a step are equally large: between workers that
hold the same part of the model. Until they are known, the check before the first step counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from spotrun.api.names import ConditionType, Reason
from spotrun.policies.policy import Policy
from spotrun.policies.report.checked_speeds import SLOW, level_of, low_clock, slow_by_check, where
from spotrun.state.conditions import state, unsay
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.view import View
from spotrun.state.world_members import training, world_members, world_number

NO_LONGER_SLOW = 1.15
LEAST_LOSS = 0.1
"""The least part of a step that the others wait for a slow worker."""

_KIND = ConditionType.EVEN_SPEED


@dataclass(frozen=True)
class Times:
    """A worker's own seconds in a step."""

    worker: Worker
    compute: float
    data: float
    step: float  # of all together

    @property
    def own(self) -> float:
        """The seconds in which it does not wait for others."""
        return self.compute + self.data


def say_who_is_slow(view: View, status: JobState) -> JobState:
    """State which worker holds up the others; say nothing while none does."""
    if not training(status) or status.suspended_by:
        return unsay(status, _KIND)
    found = [_slowest(same) for same in _alike(view, status)]
    uneven = _unevenness(view, status) if found else None
    if uneven is None:
        return _by_check(view, status)  # steps are measured later: who was slow may still be
    slowest, typical = max(found, key=lambda one: _ratio(*one))
    ratio = _ratio(slowest, typical) / uneven
    if ratio < NO_LONGER_SLOW:
        return unsay(status, _KIND)
    if ratio < SLOW[0] or slowest.own - typical.own < LEAST_LOSS * slowest.step:
        return status
    message = _words(slowest, typical, ratio)
    return state(view, status, _KIND, Reason.SLOW_WORKER, message, holds=False)


def _by_check(view: View, status: JobState) -> JobState:
    message = slow_by_check(view, status)
    if message is None:
        return status
    return state(view, status, _KIND, Reason.SLOW_WORKER, message, holds=False)


def _unevenness(view: View, status: JobState) -> float | None:
    """Return how many times as many microbatches as others a process may have in a step.

    None: there are processes without any.
    """
    told = (w.agent.report.progress for w in world_members(view, status) if w.agent is not None)
    microbatches = max((one.microbatches or 0 for one in told if one is not None), default=0)
    if not microbatches:
        return 1.0  # a script without Run, whose processes get the same
    processes = len(training(status)) * view.job.processes
    fewest, more = divmod(microbatches, processes)
    return (fewest + bool(more)) / fewest if fewest else None


def _alike(view: View, status: JobState) -> list[list[Times]]:
    """Return the times of members, by the part of the model that they hold; two or more of each."""
    present = world_number(status)
    groups: dict[int, list[Times]] = {}
    for worker in world_members(view, status):
        reading = worker.agent.reading if worker.agent is not None else None
        if reading is not None and reading.is_enough and reading.world_number == present:
            step = reading.step_seconds or 0.0
            shares = reading.compute or 0.0, reading.data or 0.0
            times = Times(worker, shares[0] * step, shares[1] * step, step)
            groups.setdefault(worker.pod.slot, []).append(times)
    return [same for same in groups.values() if len(same) > 1]


def _slowest(same: Sequence[Times]) -> tuple[Times, Times]:
    """Return the slowest of them, and a typical one: the one in the middle."""
    ordered = sorted(same, key=lambda one: one.own)
    return ordered[-1], ordered[(len(ordered) - 1) // 2]


def _ratio(slowest: Times, typical: Times) -> float:
    return slowest.own / typical.own if typical.own > 0 else 0.0


def _words(slowest: Times, typical: Times, ratio: float) -> str:
    is_data = slowest.data - typical.data > slowest.compute - typical.compute
    what = "waits longer for its data" if is_data else "computes longer"
    return (
        f"{where(slowest.worker)} takes more than {level_of(ratio)} times as long as others for "
        f"its part of a step, and all of them wait for it: it {what}{low_clock(slowest.worker)}"
    )


SLOW_WORKER = Policy(say_who_is_slow, is_for_readers=True)
