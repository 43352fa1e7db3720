"""The meter: it records the price of workers that have just got a node, and changed prices."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import lru_cache

from spotrun.api.capacitypool import Capacity
from spotrun.money.charges import NO_CHARGES, Book, Charge, Charges
from spotrun.money.price_history import EVER, PriceHistory
from spotrun.money.shares import Resources, normalised, share_of
from spotrun.money.units import UsdPerHour
from spotrun.policies.cost.bill import charged
from spotrun.policies.cost.by_pool import Names
from spotrun.policies.cost.charges.compaction import shortened
from spotrun.policies.cost.charges.times import all_ends, started_at, unsettled
from spotrun.policies.cost.spent import priced
from spotrun.policies.policy import Policy
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.view import View


def meter(view: View, status: JobState) -> JobState:
    """Record new prices; older prices are kept while they may still be needed and have room."""
    sums, workers = status.accumulators, unsettled(view, status)
    known = sums.rates
    changed = dict(_changes(view, Names(sums, known, workers), known, workers))
    if not changed:
        return status
    exact = {**known, **changed}
    kept = _shortened(view, exact, workers)
    noted = replace(sums, rates=kept)
    left_out = priced(view, workers, exact) - priced(view, workers, kept)
    if left_out.usd:
        noted = charged(noted, left_out)
    return replace(status, accumulators=noted)


def _shortened(view: View, exact: Book, workers: Sequence[Worker]) -> Book:
    """Shorten the charges of running and of ended workers apart.

    The few whose charge has ended have room of their own: they may be found to have run on. The
    charges of absent workers are not shortened.
    """
    starts = {worker.worker_id: started_at(worker) or EVER for worker in workers}
    over = {
        worker_id for worker_id, end in all_ends(view).items() if end is not None
    } & starts.keys()
    kept = dict(exact)
    for part in (starts.keys() - over, over):
        book = {worker_id: exact[worker_id] for worker_id in part if worker_id in exact}
        kept |= shortened(book, starts, view.now)
    return kept


def _changes(
    view: View, names: Names, book: Book, workers: Sequence[Worker]
) -> Iterator[tuple[int, Charges]]:
    """Yield the workers whose charges differ from the recorded ones, with all their charges."""
    on_node: dict[str, list[Worker]] = {}
    made: dict[Hashable, Charges] = {}  # shared by workers that cost the same
    ends = all_ends(view)
    for worker in workers:
        node, known = worker.node, book.get(worker.worker_id, NO_CHARGES)
        if node is None or not node.prices.changes:
            continue
        end = ends[worker.worker_id]
        if known and end is not None:
            since = max(known[-1].since, started_at(worker) or EVER)
            charges = _followed(known, worker, since, end)
            if charges != known:
                yield worker.worker_id, charges
        elif node.allocatable is not None:
            on_node.setdefault(node.name, []).append(worker)
    for together in on_node.values():
        for worker, share in zip(together, shares_of(together), strict=True):
            known = book.get(worker.worker_id, NO_CHARGES)
            key = (known, share, *_since_known(view, worker, known))
            if key not in made:
                made[key] = _charges(view, worker, share, known, names)
            if made[key] != known:
                yield worker.worker_id, made[key]


def _followed(known: Charges, worker: Worker, since: datetime, end: datetime) -> Charges:
    """Return the charges with price changes before the worker's end that are only seen now.

    It is not known any more which workers were on the node then, but the share was the same.
    """
    assert worker.node is not None, "the worker was on a node"
    history = worker.node.prices
    charges, before = list(known), history.at(since)
    for moment, price in history.changes:
        if price is None or not since < moment < end:
            continue
        if before is not None and before.exact:
            rate = charges[-1].usd_per_hour * (price.exact / before.exact)
            charges.append(replace(known[-1], since=moment, usd_per_hour=UsdPerHour(rate.decimal)))
        before = price
    return Charges(charges)


def shares_of(workers: Sequence[Worker]) -> tuple[Decimal, ...]:
    """Return the share of their node that each of these workers has."""
    if len(workers) == 1:
        return (_share(workers[0].pod.requests, _allocatable(workers[0])),)
    return normalised([_share(worker.pod.requests, _allocatable(worker)) for worker in workers])


def _allocatable(worker: Worker) -> Resources:
    assert worker.node is not None, "the worker is on a node"
    assert worker.node.allocatable is not None, "its resources are known"
    return worker.node.allocatable


def _charges(view: View, worker: Worker, share: Decimal, known: Charges, names: Names) -> Charges:
    """Return the known charges, and the changes since then.

    A price that becomes known late counts from the worker's start, because no price was shown
    before. A price that is no longer known continues as it was. Another pool counts from when it is
    seen: what was charged to the pool before stays.
    """
    assert worker.node is not None, "the worker is on a node"
    history, start, pool = worker.node.prices, started_at(worker) or view.now, worker.node.pool
    is_same_pool = bool(known) and pool in {"", known[-1].pool}
    if is_same_pool and _is_seen(history, share, known[-1], start, view.now):
        return known  # the usual case
    charges, is_spot = list(known), worker.node.capacity is Capacity.SPOT
    pool = known[-1].pool if is_same_pool else names.of(pool)
    changes = history.between(max(start, known[-1].since) if known else start, view.now)
    first = () if known else ((EVER, history.at(start)),)
    for moment, price in (*first, *changes, (view.now, history.at(view.now))):
        rate = _rate(price, share) if price is not None else None
        if rate is None or (charges and moment <= charges[-1].since):
            continue
        if not charges:
            charges.append(Charge(EVER, rate, is_spot, pool))
            continue
        last = charges[-1]
        there = pool if moment == view.now else last.pool
        if (rate, there) != (last.usd_per_hour, last.pool):
            charges.append(Charge(moment, rate, is_spot, there))
    return Charges(charges) if len(charges) > len(known) else known


def _since_known(view: View, worker: Worker, known: Charges) -> tuple[Hashable, ...]:
    """Return all that, besides the share, decides which charges are added to the known ones."""
    node, start = worker.node, started_at(worker) or view.now
    assert node is not None, "the worker is on a node"
    history, is_spot = node.prices, node.capacity is Capacity.SPOT
    begin = max(start, known[-1].since) if known else start
    new = history.between(begin, view.now)
    return (node.pool, is_spot, new, history.at(view.now), None if known else history.at(start))


def _is_seen(
    history: PriceHistory, share: Decimal, last: Charge, start: datetime, now: datetime
) -> bool:
    """Whether the newest price is charged already, and no other price came in between."""
    changed_at, price = history.changes[-1]
    before = history.changes[-2][0] if len(history.changes) > 1 else EVER
    if price is None or changed_at > now or before > max(last.since, start):
        return False
    return _rate(price, share) == last.usd_per_hour


@lru_cache(maxsize=4096)
def _share(requests: Resources, allocatable: Resources) -> Decimal:
    return share_of(requests, allocatable)


@lru_cache(maxsize=4096)
def _rate(price: UsdPerHour, share: Decimal) -> UsdPerHour:
    """Return the rate with the digits that status stores."""
    return UsdPerHour((price * share).decimal)


METER = Policy(meter)
