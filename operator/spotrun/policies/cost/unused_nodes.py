"""The cost of the unused part of nodes that only this job's workers use.

It counts from when a node joined the cluster for a worker until the last worker has left. The
operator does not see what the node costs after that, nor pods on it that belong to no job.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from spotrun.money.ledger import Segment, idle
from spotrun.money.units import NO_USD, Usd, UsdPerHour, total_over
from spotrun.policies.cost.charges.times import all_ends, ended_at, started_at, unsettled
from spotrun.policies.cost.meter import shares_of
from spotrun.policies.policy import Policy
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.stored.cost import Accumulators
from spotrun.state.view import View

_EVERY = timedelta(seconds=60)
"""The cost is written this often as well; a gang may have hundreds of nodes."""


def count_idle(view: View, status: JobState) -> JobState:
    """Add the idle cost since the last time: once a minute, and before a worker is settled."""
    sums, workers = status.accumulators, unsettled(view, status)
    since, nodes = sums.idle_as_of, _own_nodes(view, workers)
    if not nodes:
        return _paused(status, sums)
    is_recent = since is not None and view.now - since < _EVERY
    if is_recent and all(worker.worker_id not in view.ends for worker in workers):
        return status
    unused = _unused(view, nodes.values(), since)
    idle_usd = ((sums.idle_usd or NO_USD) + unused).as_stored if unused else sums.idle_usd
    sums = replace(sums, idle_as_of=view.now, idle_usd=idle_usd)
    return replace(status, accumulators=sums)


def _paused(status: JobState, sums: Accumulators) -> JobState:
    """Stop counting while the job has no node."""
    if sums.idle_as_of is None:
        return status
    return replace(status, accumulators=replace(sums, idle_as_of=None))


def _own_nodes(view: View, workers: Iterable[Worker]) -> Mapping[str, Sequence[Worker]]:
    """Group workers by their node, if its price is known and no other job is on it."""
    found: dict[str, list[Worker]] = {}
    for worker in workers:
        node = worker.node
        if node is None or node.allocatable is None or not node.prices.changes:
            continue
        if node.name not in view.job.shared_nodes:
            found.setdefault(node.name, []).append(worker)
    return found


def _unused(view: View, nodes: Iterable[Sequence[Worker]], since: datetime | None) -> Usd:
    """Add up the unused parts of nodes; the many nodes without a change are computed together."""
    total, left = NO_USD, dict[Fraction, list[tuple[UsdPerHour, timedelta]]]()
    for workers in nodes:
        node, shares = workers[0].node, shares_of(workers)
        assert node is not None, "the workers are on a node"
        if since is None or not _is_as_before(view, workers, since):
            total += _idle(view, workers, shares, since)
        elif part := _left(shares):
            left.setdefault(part, []).extend(node.prices.stretches(since, view.now))
    return sum((total_over(times) * part for part, times in left.items()), total)


@lru_cache(maxsize=256)
def _left(shares: tuple[Decimal, ...]) -> Fraction:
    return max(1 - sum(map(Fraction, shares), Fraction(0)), Fraction(0))


def _idle(
    view: View, workers: Sequence[Worker], shares: Sequence[Decimal], since: datetime | None
) -> Usd:
    node = workers[0].node
    assert node is not None, "the workers are on a node"
    came_at, used_at = _came_at(view, workers)
    is_new = since is None or used_at > since
    start = came_at if is_new or since is None else since
    whole = Segment(0, start, _left_at(view, workers), Decimal(1), node.prices)
    parts = [
        Segment(one.worker_id, started_at(one) or view.now, ended_at(view, one), share, node.prices)
        for one, share in zip(workers, shares, strict=True)
    ]
    return idle(whole, parts, view.now)


def _is_as_before(view: View, workers: Iterable[Worker], since: datetime) -> bool:
    """Whether no worker has come or gone: the unused part of the node was the same all the time."""
    ends = all_ends(view)
    for one in workers:
        if (started_at(one) or view.now) > since or ends[one.worker_id] is not None:
            return False
    return True


def _left_at(view: View, workers: Sequence[Worker]) -> datetime | None:
    """Return when the last of these workers ended; None while one still runs."""
    ends = [ended_at(view, worker) for worker in workers]
    known = [end for end in ends if end is not None]
    return max(known) if len(known) == len(ends) else None


def _came_at(view: View, workers: Sequence[Worker]) -> tuple[datetime, datetime]:
    """Return when a node came for this job, and when its use began."""
    first = min(workers, key=lambda worker: started_at(worker) or view.now)
    used_at, node, asked_at = started_at(first) or view.now, first.node, first.pod.created_at
    if node is None or node.created_at is None or asked_at is None or node.created_at < asked_at:
        return used_at, used_at  # the node was there before, so it did not come for this job
    return min(node.created_at, used_at), used_at


UNUSED_NODES = Policy(count_idle, is_for_readers=True)
