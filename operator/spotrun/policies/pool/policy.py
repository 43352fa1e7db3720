"""Knowledge of a pool: the next status, out of the last one and what was seen since.

The status is all that is remembered: an operator that starts anew goes on from it. What happened up
to `asOf` is in it, so nothing is counted twice.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from spotrun.api.capacitypool import (
    CapacityPoolSpec,
    CapacityPoolStatus,
    PoolInterruption,
    PoolNode,
    Price,
    PriceChange,
)
from spotrun.api.field_types.amounts import Amount
from spotrun.api.field_types.text_values import Time
from spotrun.api.meta import ConditionStatus
from spotrun.money.price_history import Quote
from spotrun.policies.pool.lifetimes import Life, Lifetimes, next_age_at

BULK = timedelta(minutes=5)
"""What is taken within this is one interruption: markets take 7 to 11 of 16 nodes at a time."""
DAY = timedelta(hours=24)
REST = timedelta(minutes=10)
LONG_REST = timedelta(minutes=30)
"""Of capacity that was lost 16-28 % is back after ten minutes, and half of it after an hour."""
PATIENCE_SECONDS = 600.0
"""Autoscalers bring a node within this, as a rule; it holds until a pool has shown its own time."""
TURNED_DOWN_SECONDS = 20.0
"""Autoscalers look at what waits every ten seconds: after two looks another one, which may make the
node that the first does not, has said so, too."""
DROUGHT_SECONDS = 1800.0
"""Who waited longer waited for capacity; that says nothing of how long a machine takes to start."""
EMPTY = timedelta(days=7)
"""A pool that nobody used for so long, and that nobody has changed, is no longer shown."""
WRITE_SECONDS = 30.0
LIFETIMES_SECONDS = 600.0
"""That nodes have become older is worth a write only so often."""

SAID_AGAIN = timedelta(minutes=10)

_STEP = 1.5
_KEPT_PRICES = 256
_KEPT_INTERRUPTIONS = 64


@dataclass(frozen=True)
class PoolSnapshot:
    """A pool and what was seen of it; events from before `status.asOf` do no harm."""

    name: str
    uid: str
    version: str
    spec: CapacityPoolSpec
    status: CapacityPoolStatus = field(default_factory=CapacityPoolStatus)
    is_ours: bool = False  # discovered, and not changed by anybody since
    lives: tuple[Life, ...] = ()  # of its nodes, and of those that went away lately
    workers: int | None = 0  # of all jobs; None: not all of them are seen
    node: PoolNode | None = None  # what one of its nodes has
    quote: Quote | None = None
    on_demand: Quote | None = None
    provisioned: tuple[tuple[datetime, float], ...] = ()  # when, and for how long it was waited
    waiting: tuple[datetime, ...] = ()  # since when workers wait that would fit an empty node
    turned_down: tuple[datetime, ...] = ()  # of these, who gets no node from an autoscaler
    is_asked: bool = False  # some worker waits for it, whether it would fit or not
    written_seconds: float = float("inf")  # since status was last written

    @property
    def nodes(self) -> tuple[datetime, ...]:
        """The time at which each of the present nodes was made."""
        return tuple(life.born_at for life in self.lives if life.ended_at is None)


def next_pool(pool: PoolSnapshot, now: datetime) -> CapacityPoolStatus:
    """The status with all that is known now; equal to the last one if there is nothing new."""
    status = pool.status
    for learn in _LESSONS:
        status = learn(pool, status, now)
    if status == pool.status:
        return status
    return status.model_copy(update={"as_of": Time.of(now)})


def seconds_to_write(pool: PoolSnapshot, new: CapacityPoolStatus) -> float:
    """Return how long a status has to wait until it may be written."""
    if pool.status.as_of is None:
        return 0.0
    is_age_only = new == pool.status.model_copy(
        update={"lifetimes": new.lifetimes, "as_of": new.as_of}
    )
    pause_seconds = LIFETIMES_SECONDS if is_age_only else WRITE_SECONDS
    return max(pause_seconds - pool.written_seconds, 0.0)


def is_forgotten(pool: PoolSnapshot, now: datetime) -> bool:
    """Whether a pool that was discovered is of no use to anybody any more."""
    since = pool.status.empty_since
    if not pool.is_ours or pool.nodes or pool.workers or pool.is_asked or since is None:
        return False
    return now - since.datetime >= EMPTY


def again_seconds(pool: PoolSnapshot, status: CapacityPoolStatus, now: datetime) -> float:
    """Return the seconds until time alone changes something."""
    moments = [next_age_at(born_at, now) for born_at in pool.nodes]
    moments += [one.time.datetime + DAY for one in status.interruptions or ()]
    moments += _dry_at(pool, status)
    if status.retry_at is not None:
        moments.append(status.retry_at.datetime)
    if pool.quote is not None and pool.quote.stale_at is not None:
        moments.append(pool.quote.stale_at)
    if pool.is_ours and status.empty_since is not None:
        moments.append(status.empty_since.datetime + EMPTY)
    waits = ((moment - now).total_seconds() for moment in moments if moment is not None)
    return min((wait for wait in waits if wait > 0), default=float("inf"))


def patience_seconds(provision_seconds: float | None) -> float:
    """Return how long to wait for a node before a pool is taken to be dry."""
    return PATIENCE_SECONDS if provision_seconds is None else max(provision_seconds, 60.0)


def _count(pool: PoolSnapshot, status: CapacityPoolStatus, now: datetime) -> CapacityPoolStatus:
    """Count the nodes and workers that are there now."""
    nodes, empty_since = pool.nodes, status.empty_since
    if nodes:
        empty_since = None
    elif empty_since is None:
        empty_since = Time.of(now)
    update = {
        "types": _in_a_line(pool.spec.instance_types),
        "zones": _in_a_line(pool.spec.zones),
        "nodes": len(nodes),
        "workers": pool.workers,
        "node": pool.node or status.node,
        "empty_since": empty_since,
    }
    return status.model_copy(update=update)


def _quote(pool: PoolSnapshot, status: CapacityPoolStatus, now: datetime) -> CapacityPoolStatus:
    """Note what a node costs: who has ever known a price keeps when it changed."""
    old = status.price or Price()
    price = pool.quote.usd_per_hour.amount if pool.quote is not None else None
    recent = old.recent or ()
    if price is not None and (not recent or price != old.usd_per_hour):
        recent = (*recent, PriceChange(time=Time.of(now), usd_per_hour=price))[-_KEPT_PRICES:]
    on_demand = pool.on_demand.usd_per_hour.amount if pool.on_demand is not None else None
    new = Price(
        usd_per_hour=price,
        on_demand_usd_per_hour=on_demand,
        source=pool.quote.source[:253] if pool.quote is not None else None,
        stale=(pool.quote is not None and pool.quote.is_stale(now)) or None,
        recent=recent or None,
    )
    new = new.model_copy(update={"as_of": _said_at(pool.quote, old, new)})
    update = {
        "price": new if new != Price() else None,
        "unpriced": _command_to_price(pool) if price is None else None,
    }
    return status.model_copy(update=update)


def _command_to_price(pool: PoolSnapshot) -> str:
    """Return what an admin can type at once; what the nodes themselves state comes before it."""
    told = json.dumps({"spec": {"usdPerHour": "<USD>"}}, separators=(",", ":"))
    return f"kubectl patch cpool {pool.name} --type=merge -p '{told}'"


def _said_at(quote: Quote | None, old: Price, new: Price) -> Time | None:
    """Return when the source said it; that it says the same again is rarely worth a write."""
    if quote is None or quote.as_of is None:
        return None
    is_same = new.model_copy(update={"as_of": old.as_of}) == old
    if is_same and old.as_of is not None and quote.as_of - old.as_of.datetime < SAID_AGAIN:
        return old.as_of
    return Time.of(quote.as_of)


def _time_it_took(
    pool: PoolSnapshot, status: CapacityPoolStatus, _: datetime
) -> CapacityPoolStatus:
    """The time in which 19 of 20 nodes come, learned one by one with a single number.

    A longer one raises it by a half at most, a shorter one lowers it by a 19th of that in the
    logarithm: it comes to rest where one in twenty is longer.
    """
    learned = status.provision_seconds
    p95 = float(learned.decimal) if learned is not None else None
    for at, seconds in pool.provisioned:
        if not _is_new(status, at) or seconds > DROUGHT_SECONDS:
            continue
        if p95 is None:
            p95 = seconds
        elif seconds > p95:
            p95 = min(seconds, p95 * _STEP)
        else:
            p95 = max(seconds, p95 / _STEP ** (1 / 19))
    if p95 is None:
        return status
    rounded = Amount.of(Decimal(round(p95)))
    return status.model_copy(update={"provision_seconds": rounded})


def _availability(
    pool: PoolSnapshot, status: CapacityPoolStatus, now: datetime
) -> CapacityPoolStatus:
    """Whether more can be had; only who would fit an empty node can tell."""
    was, retry_at = status.available or ConditionStatus.UNKNOWN, status.retry_at
    if any(_is_new(status, born_at) for born_at in pool.nodes) and status.as_of is not None:
        return _available(status, ConditionStatus.TRUE, None)
    is_resting = retry_at is not None and now < retry_at.datetime
    if is_resting:
        return status
    if any(now >= moment for moment in _dry_at(pool, status)):
        rest = LONG_REST if retry_at is not None else REST
        return _available(status, ConditionStatus.FALSE, Time.of(now + rest))
    if was is ConditionStatus.FALSE:
        # When it was asked last is kept: dry again without a node in between, it rests longer.
        return _available(status, ConditionStatus.UNKNOWN, retry_at)
    return _available(status, was, retry_at)


def _available(
    status: CapacityPoolStatus, available: ConditionStatus, retry_at: Time | None
) -> CapacityPoolStatus:
    return status.model_copy(update={"available": available, "retry_at": retry_at})


def _interruptions(
    pool: PoolSnapshot, status: CapacityPoolStatus, now: datetime
) -> CapacityPoolStatus:
    """Nodes that were taken; those within a few minutes of the first are one event."""
    known = list(status.interruptions or ())
    taken = [life for life in pool.lives if life.taken and _is_new(status, life.ended_at)]
    for life in sorted(taken, key=lambda one: one.ended_at or now):
        at = life.ended_at or now
        hours = Decimal(round(min(life.seconds, DAY.total_seconds()))) / 3600
        if known and at - known[-1].time.datetime < BULK:
            last = known[-1]
            known[-1] = PoolInterruption(
                time=last.time,
                nodes=last.nodes + 1,
                node_hours=Amount.of(round(last.node_hours.decimal + hours, 2)),
            )
        else:
            one = PoolInterruption(time=Time.of(at), nodes=1, node_hours=Amount.of(round(hours, 2)))
            known.append(one)
    recent = [one for one in known if now - one.time.datetime < DAY]
    kept = (recent or known[-1:])[-_KEPT_INTERRUPTIONS:]
    update = {"interruptions": tuple(kept) or None, "interruptions_24h": len(recent)}
    return status.model_copy(update=update)


def _ages(pool: PoolSnapshot, status: CapacityPoolStatus, now: datetime) -> CapacityPoolStatus:
    """Note how long nodes live."""
    since = status.as_of.datetime if status.as_of is not None else None
    known = Lifetimes.read(status.lifetimes).observe(pool.lives, since, now)
    return status.model_copy(update={"lifetimes": str(known) or None})


_LESSONS: tuple[Callable[[PoolSnapshot, CapacityPoolStatus, datetime], CapacityPoolStatus], ...] = (
    _count,  # what is there?
    _quote,  # what does it cost?
    _time_it_took,  # how long does a new node take?
    _availability,  # are there more?
    _interruptions,  # what was taken away?
    _ages,  # how old do nodes become?
)


def _is_new(status: CapacityPoolStatus, moment: datetime | None) -> bool:
    """Whether something happened after the last status, which holds all before."""
    if moment is None:
        return False
    return status.as_of is None or moment > status.as_of.datetime


def _dry_at(pool: PoolSnapshot, status: CapacityPoolStatus) -> list[datetime]:
    """Return when it follows, from each worker that waits, that there are no more nodes."""
    soon = timedelta(seconds=TURNED_DOWN_SECONDS)
    return [
        *(since + _patience(status) for since in _attempts(pool, pool.waiting)),
        *(since + soon for since in _attempts(pool, pool.turned_down)),
    ]


def _attempts(pool: PoolSnapshot, waiting: Iterable[datetime]) -> list[datetime]:
    """Since when they wait in vain: a new node begins another attempt for all who still do."""
    newest = max(pool.nodes, default=None)
    return [since if newest is None else max(since, newest) for since in waiting]


def _patience(status: CapacityPoolStatus) -> timedelta:
    learned = status.provision_seconds
    seconds = patience_seconds(float(learned.decimal) if learned is not None else None)
    return timedelta(seconds=seconds)


def _in_a_line(names: tuple[str, ...] | None) -> str | None:
    line = ",".join(names or ())
    return (line if len(line) <= 250 else f"{line[:250]}...") or None
