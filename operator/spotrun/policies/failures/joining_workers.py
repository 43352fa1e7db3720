"""Joining workers: they have not trained with the other members yet, and may fail before they do.

If one fails, the others train without it. It is held back for a while, and is no reason to end the
job; `failures` counts it, separately from the failures of workers that train.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spotrun.api.field_types.bounded import MAX_MESSAGE_CHARS
from spotrun.api.names import Reason
from spotrun.api.status import MOST_HELD_WORLDS
from spotrun.policies.failures.backoff import pause_after, pause_seconds
from spotrun.policies.failures.node_blame import blamed_with, guilty, nodes_to_avoid
from spotrun.state.conditions import record
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.stored.failures import HeldBack, JoiningWorkers, Restarts
from spotrun.state.view import View
from spotrun.state.worker_outcomes import reason_of
from spotrun.state.world_members import (
    has_failed_in,
    is_breaking_off,
    on_trial,
    training,
    training_set,
    world_number,
)
from spotrun.state.world_transitions import give_up

_KEPT_DEAD = 64
"""The most workers without a pod that are remembered, because their peers may still report errors
that they caused. Workers with a pod are always remembered."""


@dataclass(frozen=True)
class FailedJoiningWorker:
    """A joining worker that failed, with its own message."""

    worker_id: int
    reason: Reason
    exit_code: int | None
    message: str
    node: str | None
    world_number: int | None  # the world that it was in, or was about to enter; None: unknown
    has_ended: bool  # its pod has ended too

    @property
    def words(self) -> str:
        """The description of the failure."""
        code = f", exit code {self.exit_code}" if self.exit_code is not None else ""
        where = f" on node {self.node}" if self.node else ""
        said = f": {self.message}" if self.message else ""
        return (
            f"worker {self.worker_id}{where} failed before it trained ({self.reason}{code}){said}"
        )


def count_joining_workers(view: View, status: JobState, but: Collection[int]) -> JobState:
    """Hold back those that have failed, for a growing pause, until one of them trains."""
    there = [worker for worker in _joining_workers(view, status) if worker.worker_id not in but]
    ended = list(_ended(view, status, there))
    new = [*ended, *_reported(status, _failed(view, status, there))]
    if any(one.world_number is not None for one in ended):
        new = ended  # it caused the failures of the others in its world
    if new:
        return _hold_back(view, status, new)
    if status.restarts.joining_workers is None or not _are_well(view, status):
        return status
    return replace(status, restarts=replace(status.restarts, joining_workers=None))


def held_back(view: View, status: JobState) -> frozenset[int]:
    """The joining workers that failed, until the pause is over."""
    known = noted(status)
    if known is None or pause_seconds(view, known.retry_at) is None:
        return frozenset()
    return frozenset(known.worlds)


def retry_joining_workers_wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return how many seconds are left of that pause; None if there is no pause."""
    known = noted(status)
    return pause_seconds(view, known.retry_at) if known is not None else None


def brought_down(status: JobState) -> bool:
    """Whether a joining worker failed in the world that trains: its peers report errors then."""
    known, world = noted(status), status.world
    if known is None or not world.is_active:
        return False
    return any(one.world == world.number for one in known.held)


def _hold_back(view: View, status: JobState, new: Sequence[FailedJoiningWorker]) -> JobState:
    held = _held(view, status.restarts.joining_workers, new)
    nodes = [node for one in new for node in guilty(one.node, one.message)]
    blamed = blamed_with(status.restarts, nodes)
    restarts = replace(status.restarts, joining_workers=held, blamed=blamed)
    if ended := [one for one in new if one.has_ended]:
        restarts = _pause_for_all(restarts, held, ended[0])
    status = replace(status, restarts=restarts)
    said = {
        "failures": str(held.failures),
        "pauseSeconds": f"{pause_seconds(view, held.retry_at) or 0.0:.0f}",
        "reason": new[0].reason.value,
    }
    status = record(
        view, status, "HoldBack", "; ".join(one.words for one in new)[:MAX_MESSAGE_CHARS], said
    )
    bad = [view.by_worker_id[one.worker_id] for one in new if _is_for_its_node(view, status, one)]
    return give_up(view, status, bad) if bad else status


def _held(
    view: View, known: JoiningWorkers | None, new: Sequence[FailedJoiningWorker]
) -> JoiningWorkers:
    """The pause and the workers in it; a failure during the pause does not prolong it."""
    if known is None or pause_seconds(view, known.retry_at) is None:
        failures = (known.failures if known is not None else 0) + 1
        retry_at = view.now + pause_after(failures)
    else:
        failures, retry_at = known.failures, known.retry_at
    worlds = (known.worlds if known is not None else {}) | {
        one.worker_id: one.world_number for one in new
    }
    dead = sorted(worlds.keys() - view.alive_worker_ids)[:-_KEPT_DEAD]
    kept = {worker_id: worlds[worker_id] for worker_id in sorted(worlds.keys() - set(dead))}
    return JoiningWorkers(failures, retry_at, held=_by_world(kept))


def _by_world(worlds: Mapping[int, int | None]) -> tuple[HeldBack, ...]:
    """Group the workers by world, those of older worlds in one group."""
    newest = sorted({n for n in worlds.values() if n is not None})[-MOST_HELD_WORLDS:]
    found: dict[int | None, list[int]] = {}
    for worker_id, world in worlds.items():
        found.setdefault(world if world in newest else None, []).append(worker_id)
    return tuple(
        HeldBack(workers=tuple(worker_ids), world=world)
        for world, worker_ids in sorted(found.items(), key=lambda one: one[0] or 0)
    )


def _pause_for_all(restarts: Restarts, held: JoiningWorkers, one: FailedJoiningWorker) -> Restarts:
    """Create no replacement either for a worker whose pod has ended, while the pause lasts."""
    if restarts.retry_at is None or restarts.retry_at < held.retry_at:
        restarts = replace(restarts, retry_at=held.retry_at)
    if not restarts.count:
        restarts = replace(restarts, failures=0, last_reason=one.reason.value)
    return restarts


def _is_for_its_node(view: View, status: JobState, one: FailedJoiningWorker) -> bool:
    """Whether its node is blamed twice, and no other worker trains there."""
    if one.has_ended or one.node not in nodes_to_avoid(status):
        return False
    others = (n for n in training(status) if n in view.alive_worker_ids and n != one.worker_id)
    return all(view.by_worker_id[n].pod.node != one.node for n in others)


def _are_well(view: View, status: JobState) -> bool:
    """Whether a worker that had failed trains by now, or its replacement, or no more are wanted."""
    known, trains = noted(status), set(training(status)) - on_trial(view, status)
    if known is None or len(trains) >= view.limited_size:
        return True
    those = known.worlds.keys()
    is_replaced = those.isdisjoint(view.alive_worker_ids) and max(trains, default=0) > max(
        those, default=0
    )
    return is_replaced or not those.isdisjoint(trains)


def _joining_workers(view: View, status: JobState) -> list[Worker]:
    """Return the workers with a pod that do not train yet; none while no others train."""
    settled_in = set(training(status)) - on_trial(view, status)
    return [w for w in view.job.workers if w.worker_id not in settled_in] if settled_in else []


def _failed(view: View, status: JobState, joining: list[Worker]) -> list[Worker]:
    """Return who failed before or in the newest world; of those who entered it only the first."""
    world, known = status.world, noted(status)
    if not joining or is_breaking_off(view, status):
        return []
    before = known.worlds if known is not None else {}
    found = [
        worker
        for worker in joining
        if worker.worker_id in view.alive_worker_ids
        and not worker.pod.deleting
        and has_failed_in(worker, world.number)
        and before.get(worker.worker_id) != world.number
    ]
    if not world.is_active:
        return found
    return [] if brought_down(status) else sorted(found, key=_ready_seconds)[-1:]


def _ready_seconds(worker: Worker) -> float:
    """Return how long a worker has waited for another world; after a failure it waits for one."""
    return (worker.agent.ready_seconds or 0.0) if worker.agent is not None else 0.0


def _reported(status: JobState, failed: list[Worker]) -> Iterator[FailedJoiningWorker]:
    newest = status.world.number or None
    for worker in failed:
        failure = worker.agent.report.failed if worker.agent is not None else None
        if failure is not None:
            said = (failure.exit_code, failure.message, worker.pod.node, newest, False)
            yield FailedJoiningWorker(worker.worker_id, reason_of(failure.message), *said)


def _ended(view: View, status: JobState, joining: list[Worker]) -> Iterator[FailedJoiningWorker]:
    members, present = training_set(status), world_number(status)
    settled, known = view.job.status.settled, view.job.status.failed
    for worker in joining:
        outcome = view.ends.get(worker.worker_id)
        if outcome is None or outcome.cause is None or not outcome.is_failure:
            continue
        if worker.worker_id in settled or worker.worker_id in known:
            continue
        entered = present if worker.worker_id in members else None
        said = (outcome.exit_code, outcome.message, worker.pod.node, entered, True)
        yield FailedJoiningWorker(worker.worker_id, outcome.cause, *said)


def noted(status: JobState) -> JoiningWorkers | None:
    """Return what the status remembers about joining workers that failed."""
    return status.restarts.joining_workers
