"""Partial capacity: nodes that no allowed size can use, because the others do not come.

Such nodes cost money and do nothing. A job of sizes 2, 6 and 8 that gets five nodes has three of
them; a gang that lacks one node has only such nodes. The missing nodes may come soon, so the job
keeps the unused ones for a while. Then it gives them back for other jobs, and asks again for all
the nodes that it wants after a pause, which grows each time this fails.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from spotrun.api.field_types.text_values import Time
from spotrun.api.names import Reason
from spotrun.policies.deadline.course import full_size, full_step_seconds
from spotrun.policies.placement.free_capacity import is_scaled
from spotrun.policies.placement.policy import fallback_wake_after_seconds, missing
from spotrun.policies.placement.supply import (
    SCALED_SECONDS,
    offered,
    patience_seconds,
    waits_seconds,
)
from spotrun.policies.policy import Policy
from spotrun.state.conditions import record
from spotrun.state.job_state import NOTHING_UNUSED, JobState, Unused
from spotrun.state.replicas import holds_all, whole
from spotrun.state.sizes import SizeLimit, largest, smallest
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.view import View, holds_back
from spotrun.state.world_members import (
    all_in_process,
    gone,
    some_unheard,
    state_holders,
    world_members,
)

FIRST_PAUSE = timedelta(minutes=10)
LONGEST_PAUSE = timedelta(minutes=80)
LOOK_SECONDS = 30.0
"""The operator checks this often whether nodes have become free meanwhile."""
_PLACES = 3.0
"""The number of places tried one after the other: spot, other spot, and on-demand."""


@dataclass(frozen=True)
class _Held:
    """The number of workers with a node, and how many of these may train together."""

    nodes: int
    usable: int
    wanted: int

    @property
    def unused(self) -> int:
        return self.nodes - self.usable


def capacity_limit(view: View) -> SizeLimit | None:
    """Limit the size to the workers that could train, until more are asked for again."""
    known = _remembered(view.job)
    if not _is_pausing(view, known) or known.size >= view.limited_size:
        return None
    fewest = smallest(view.job.effective_workers)
    return SizeLimit(Reason.WAITING_FOR_CAPACITY, max(known.size, fewest))


def give_back_unused(view: View, status: JobState) -> JobState:
    """Keep only the workers that can train, once the others have held useless nodes for long."""
    known, held = _remembered(view.job), _held(view, status)
    if holds_back(status) or held.usable >= full_size(view):
        return _note(status, NOTHING_UNUSED)
    if known.retry_at is not None:
        if not _is_pausing(view, known):
            return _note(status, replace(known, retry_at=None, retried_at=view.now))
        if held.usable >= known.size:
            return _note(status, known)
    wait = _wait_seconds(view, status, held)
    if wait is None or wait > 0:
        return _note(status, known)
    return _give_back(view, status, held)


def unused_wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when useless nodes are given back, or asked for again."""
    known, waits = status.unused, [_wait_seconds(view, status, _held(view, status))]
    if known.retry_at is not None:
        waits += [LOOK_SECONDS, (known.retry_at - view.now) / timedelta(seconds=1)]
    return min((wait for wait in waits if wait is not None), default=None)


def _held(view: View, status: JobState) -> _Held:
    return view.once("held", (status.world,), lambda: _look_at(view, status))


def _look_at(view: View, status: JobState) -> _Held:
    """Count the workers with a node; one that trains is useful to its end, also under notice."""
    placed = [worker for worker in view.staying if worker.pod.node is not None]
    if not view.job.may_hold_nodes:
        placed = []  # the nodes go to gangs that are before this one in line
    train = len(world_members(view, status))
    usable = max(len(whole(view, placed)), train)
    return _Held(max(len(placed), train), usable, view.limited_size)


def _remembered(job: JobSnapshot) -> Unused:
    """Return what was learned about nodes; it does not apply to another spec."""
    is_of_this = job.status.observed_generation == job.generation
    return job.status.unused if is_of_this else NOTHING_UNUSED


def _is_pausing(view: View, known: Unused) -> bool:
    """Whether no more are asked for yet: it is too early, and no nodes have become free."""
    if known.retry_at is None or view.now >= known.retry_at:
        return False
    free = _room(view)
    return (
        free <= known.room or largest(view.job.effective_workers, known.size + free) <= known.size
    )


def _room(view: View) -> int:
    """Return for how many more workers there seems to be room on nodes that are there."""
    return sum(pool.free_slots for pool in (*offered(view).spot, *offered(view).stable))


def _wait_seconds(view: View, status: JobState, held: _Held) -> float | None:
    """Return how long useless nodes are still kept; None: as long as nothing changes."""
    if not held.unused or gone(view, status):
        return None
    if not view.job.market.pools:
        return None  # without pools neither free nodes nor prices are known
    since = _since(view, status)
    if since is None:
        return None
    again = fallback_wake_after_seconds(view, status, held.wanted)
    if again is not None and again < FIRST_PAUSE / timedelta(seconds=1):
        return None  # on-demand capacity is about to fill the gap
    lost_seconds = _lost_seconds(view, status, held)
    if lost_seconds is None:
        return None
    waited_seconds = (view.now - since) / timedelta(seconds=1)
    kept_seconds = view.job.spec.placement.give_back_after.seconds + lost_seconds
    hoped_seconds = _hoped_seconds(view, status, held, waited_seconds)
    return max(kept_seconds - waited_seconds, hoped_seconds)


def _hoped_seconds(view: View, status: JobState, held: _Held, waited_seconds: float) -> float:
    """Return how long nodes usually take to come for workers that wait or must be created.

    One place after the other may be asked for nodes, but not without limit.
    """
    waiting = [worker for worker in view.staying if worker.node is None]
    usual = {worker.worker_id: patience_seconds(view, worker) for worker in waiting}
    left = [usual[worker.worker_id] - waits_seconds(view, worker) for worker in waiting]
    if view.job.refusal is None and missing(view, status, held.wanted):
        left.append(SCALED_SECONDS)
    longest = max([SCALED_SECONDS, *usual.values()])
    return min(max(left, default=0.0), _PLACES * longest - waited_seconds)


def _since(view: View, status: JobState) -> datetime | None:
    """Return since when they wait: a new node, world or request restarts the wait."""
    placed = (worker.pod for worker in view.staying if worker.pod.node is not None)
    moments = [pod.scheduled_at or pod.created_at for pod in placed]
    if status.world.formed_at is not None:
        moments.append(status.world.formed_at)
    moments.append(status.unused.retried_at)
    return max((moment for moment in moments if moment is not None), default=None)


def _lost_seconds(view: View, status: JobState, held: _Held) -> float | None:
    """Return how long unused nodes cost as much as doing unsaved steps again."""
    holders, workers = state_holders(view, status), view.job.effective_workers
    if some_unheard(view, holders):
        return None
    holders = [w for w in holders if w.worker_id in view.staying_worker_ids and w.agent is not None]
    if held.usable or not (holds_all(holders, workers) and all_in_process(holders)):
        return 0.0  # no worker has a state with which others could continue
    step_seconds = full_step_seconds(view, status)
    if step_seconds is None or view.job.spec.checkpoint is None or status.progress.step is None:
        return None
    saved = status.checkpoint.step if status.checkpoint is not None else 0
    unsaved = max(status.progress.step - saved, 0)
    return unsaved * step_seconds * held.wanted / held.unused


def _give_back(view: View, status: JobState, held: _Held) -> JobState:
    before, size = _remembered(view.job), full_size(view)
    is_in_vain = bool(before.count) and held.usable <= before.size
    times = before.count + 1 if is_in_vain else 1
    retry_at = view.now + _pause(view, status, held, times)
    status = _note(
        status,
        Unused(count=times, size=held.usable, room=_room(view) + held.unused, retry_at=retry_at),
    )
    usable = f"{held.usable} of {held.nodes} workers with a node can train"
    others = f"{usable}: the other nodes are given back"
    why = f"{others}, and {size} workers are asked for again at {Time.of(retry_at)}"
    said = {"times": str(times), "nodes": str(held.unused)}
    return record(view, status, Reason.WAITING_FOR_CAPACITY.value, why, said)


def _pause(view: View, status: JobState, held: _Held, times: int) -> timedelta:
    """Return the pause until all are asked for again: no longer than spot may be waited for.

    If no autoscaler creates nodes, asking costs nothing.
    """
    longest = LONGEST_PAUSE if is_scaled(view) else FIRST_PAUSE
    again = fallback_wake_after_seconds(view, status, held.wanted)
    if again is not None:
        longest = min(longest, timedelta(seconds=again))
    return min(FIRST_PAUSE * (1 << min(times - 1, 10)), longest)


def _note(status: JobState, known: Unused) -> JobState:
    return status if known == status.unused else replace(status, unused=known)


PARTIAL_CAPACITY = Policy(give_back_unused, wake_after_seconds=unused_wake_after_seconds)
