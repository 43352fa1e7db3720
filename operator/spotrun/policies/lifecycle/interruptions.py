"""Interruptions: workers that the platform took away, counted once, as soon as that is certain.

For most workers this is the status write that settles them. The end of a worker that was given up
may stay unknown for a long time, so it counts from the moment it is given up.
"""

from dataclasses import replace

from spotrun.api.names import ConditionType, Reason
from spotrun.policies.policy import Policy
from spotrun.state.conditions import holds_since, state
from spotrun.state.job_state import JobState
from spotrun.state.stored.workers import Interruption, Interruptions
from spotrun.state.view import View, holds_back
from spotrun.state.world_members import training


def count_interruptions(view: View, status: JobState) -> JobState:
    """Count the workers that this status settles or gives up and the stored status did not."""
    taken = _taken(view, status)
    if not taken:
        return status
    known: Interruptions = status.interruptions
    worker, cause = view.by_worker_id[taken[-1]], view.ends[taken[-1]].cause or Reason.NODE_LOST
    last = Interruption(
        time=view.now,
        worker=taken[-1],
        reason=cause.value,
        pool=(worker.node.pool or None) if worker.node is not None else None,
        node=worker.pod.node,
    )
    counted = replace(known, count=known.count + len(taken), last=last)
    status = replace(status, interruptions=counted)
    if holds_back(status):
        return status
    message = f"{cause.purpose}: {worker.pod.name} is replaced"
    return state(view, status, ConditionType.INTERRUPTED, cause, message, holds=True)


def _taken(view: View, status: JobState) -> list[int]:
    before = view.job.status
    if (status.settled, status.lost) == (before.settled, before.lost):
        return []
    settled, settled_before = status.settled, before.settled
    lost, lost_before = status.lost, before.lost
    return [
        n
        for n in sorted(view.ends)
        if view.ends[n].is_interruption
        and (n in lost or (n in settled and n not in settled_before))
        and n not in lost_before
    ]


def end_interruption(view: View, status: JobState) -> JobState:
    """State that the workers taken away are replaced, or no longer wanted."""
    kind = ConditionType.INTERRUPTED
    if holds_since(status, kind) is None:
        return status
    whole = len(training(status)) >= view.limited_size
    if not whole and not holds_back(status):
        return status
    message = "as many workers as wanted train" if whole else "no workers are wanted"
    return state(view, status, kind, Reason.TRAINING, message, holds=False)


INTERRUPTION_COUNT = Policy(count_interruptions)
INTERRUPTION_END = Policy(end_interruption)
