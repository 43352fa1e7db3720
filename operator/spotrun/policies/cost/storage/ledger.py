"""The ledger of checkpoints in an object store: bytes over time, requests, traffic.

The trainer counts requests in each world, and one of its processes checks how many bytes are
stored. The workers themselves report both, so neither is believed beyond what a store and the
nodes' networks can do in the time that has passed. Usage without a price is kept as an amount, and
priced once a price table has the store.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from spotrun.api.names import Pricing
from spotrun.money.other_costs.storage_costs import NO_USAGE, Usage, gb_hours, usd_per_month
from spotrun.money.units import seconds_between
from spotrun.policies.policy import Policy
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.stored.cost import Accumulators, StorageCost, StorageSums
from spotrun.state.view import FINISHED, View
from spotrun.state.world_members import last_members, world_number
from spotrun.wire import StoreUse

MOST_REQUESTS_PER_SECOND = 9_000
"""S3 serves 3,500 writing and 5,500 reading requests per second and prefix."""
MOST_BYTES_PER_SECOND = 400 * 10**9
"""No node sends more than this (3,200 Gbit/s)."""
_EVERY = timedelta(seconds=60)
_EVERY_AT_REST = timedelta(hours=1)
"""Sums can wait while nothing is written or deleted: they then depend on time alone."""
_PLACES = 12  # decimal places of a stored amount


@dataclass(frozen=True)
class _Reported:
    """The combined reports of a world's workers."""

    usage: Usage  # requests and traffic in that world
    stored_bytes: int | None
    checkpoints: int | None
    region: str
    endpoint: str


def count_storage(view: View, status: JobState) -> JobState:
    """Add the use of the store since the last time."""
    checkpoint, sums = view.job.spec.checkpoint, status.accumulators.storage
    if checkpoint is None or checkpoint.uri is None or view.job.status.phase in FINISHED:
        return status
    reported = _reported(view, status)
    if reported is None and sums is None:
        return status
    known = sums or StorageSums(as_of=view.job.created_at)
    if sums is not None and not _is_due(view, status, known, reported):
        return status
    new = _counted(view, status, known, reported)
    return replace(status, accumulators=_with(status.accumulators, _priced(view, new)))


def storage_shown(view: View, sums: StorageSums | None) -> StorageCost | None:
    """Return the cost as status shows it, with the digits that are stored."""
    if sums is None:
        return None
    price = view.job.storage_price
    usd, stored = sums.usd.as_stored, sums.stored_bytes
    has_money = bool(usd.total) or price is not None
    return StorageCost(
        usd=usd.total.as_stored if has_money else None,
        stored_usd=usd.stored if has_money else None,
        requests_usd=usd.requests if has_money else None,
        transfer_usd=usd.transfer or None,
        stored_bytes=stored,
        usd_per_month=usd_per_month(stored, price).as_stored if price and stored else None,
        pricing=Pricing.COMPLETE if sums.unpriced == NO_USAGE else Pricing.PARTIAL,
    )


def _with(sums: Accumulators, storage: StorageSums) -> Accumulators:
    return replace(sums, storage=storage)


def _is_due(view: View, status: JobState, sums: StorageSums, reported: _Reported | None) -> bool:
    """Whether anything is new, or enough time has passed to change the sums."""
    passed = view.now - (sums.as_of or view.job.created_at)
    if status.phase in FINISHED or passed >= _EVERY_AT_REST:
        return True
    if reported is None:
        return False
    is_new_world = sums.world_number != world_number(status)
    is_same = (reported.usage, reported.stored_bytes) == (sums.counted, sums.stored_bytes)
    return passed > timedelta(0) and (is_new_world or not is_same or passed >= _EVERY)


def _counted(
    view: View, status: JobState, sums: StorageSums, reported: _Reported | None
) -> StorageSums:
    seconds = max(seconds_between(sums.as_of or view.job.created_at, view.now), Decimal(0))
    kept = Usage(gb_hours=gb_hours(sums.stored_bytes or 0, seconds))
    if reported is None:
        return replace(sums, unpriced=sums.unpriced + kept, as_of=view.now)
    present = world_number(status)
    counted = sums.counted if sums.world_number == present else NO_USAGE
    most_bytes = int(seconds * MOST_BYTES_PER_SECOND) * max(len(last_members(view, status)), 1)
    made = _since(counted, reported.usage, int(seconds * MOST_REQUESTS_PER_SECOND), most_bytes)
    stored = sums.stored_bytes
    if reported.stored_bytes is not None:
        stored = min(reported.stored_bytes, (stored or 0) + most_bytes)
    return replace(
        sums,
        unpriced=sums.unpriced + kept + made,
        world_number=present,
        counted=counted + made,
        stored_bytes=stored,
        checkpoints=reported.checkpoints if stored is not None else sums.checkpoints,
        region=reported.region or sums.region,
        endpoint=reported.endpoint or sums.endpoint,
        as_of=view.now,
    )


def _since(counted: Usage, now: Usage, most_requests: int, most_bytes: int) -> Usage:
    """Return the increase of each count, as far as it is possible; the rest must wait."""
    return Usage(
        puts=min(max(now.puts - counted.puts, 0), most_requests),
        gets=min(max(now.gets - counted.gets, 0), most_requests),
        moved_bytes=min(max(now.moved_bytes - counted.moved_bytes, 0), most_bytes),
    )


def _priced(view: View, sums: StorageSums) -> StorageSums:
    """Convert amounts into money, once there is a price."""
    price, unpriced = view.job.storage_price, sums.unpriced
    if price is None:
        hours = Fraction(round(unpriced.gb_hours * 10**_PLACES), 10**_PLACES)
        return replace(sums, unpriced=replace(unpriced, gb_hours=hours))
    return replace(sums, usd=(sums.usd + unpriced.usd(price)).as_stored, unpriced=NO_USAGE)


def _reported(view: View, status: JobState) -> _Reported | None:
    """Return the combined reports of the present world's workers; None if none reports."""
    present = world_number(status)
    told = [
        (worker, progress.store)
        for worker in last_members(view, status)
        if worker.agent is not None
        and (progress := worker.agent.report.progress) is not None
        and progress.store is not None
        and progress.world_number == present
    ]
    if not told:
        return None
    uses = [use for _, use in told]
    first = next((use for use in uses if use.stored_bytes is not None), uses[0])
    return _Reported(
        usage=Usage(
            puts=sum(use.puts for use in uses),
            gets=sum(use.gets for use in uses),
            moved_bytes=_moved_bytes(told),
        ),
        stored_bytes=first.stored_bytes,
        checkpoints=first.checkpoints,
        region=first.region,
        endpoint=first.endpoint,
    )


def _moved_bytes(told: Iterable[tuple[Worker, StoreUse]]) -> int:
    """Return the bytes between nodes and a bucket in another region, where both are known."""
    return sum(
        use.put_bytes + use.got_bytes
        for worker, use in told
        if use.region and worker.node and worker.node.region not in {"", use.region}
    )


STORAGE_COST = Policy(count_storage)
"""The cost of checkpoint storage; a budget includes it."""
