"""The price of a pool's node: what it costs now, and when that changed."""

import json
from dataclasses import replace
from datetime import datetime, timedelta

from spotrun.money.price_history import NodePrice, PriceChange, Quote
from spotrun.policies.pool.snapshot import PoolSnapshot
from spotrun.state.stored.pools.pool_state import PoolState

REPEAT_AFTER = timedelta(minutes=10)
"""A price that its source only repeats is written only this often."""
_KEPT = 256
_SOURCE_CHARS = 253
_NO_PRICE = NodePrice()


def learn_price(pool: PoolSnapshot, status: PoolState, now: datetime) -> PoolState:
    """Store the price of a node; a pool that ever had a price keeps when it changed."""
    old, quote = status.price or _NO_PRICE, pool.quote
    price = quote.usd_per_hour.as_stored if quote is not None else None
    recent = old.recent
    if price is not None and (not recent or price != old.usd_per_hour):
        recent = (*recent, PriceChange(time=now, usd_per_hour=price))[-_KEPT:]
    new = NodePrice(
        usd_per_hour=price,
        on_demand_usd_per_hour=pool.on_demand.usd_per_hour.as_stored if pool.on_demand else None,
        source=quote.source[:_SOURCE_CHARS] if quote is not None else None,
        is_stale=quote is not None and quote.is_stale(now),
        recent=recent,
    )
    new = replace(new, as_of=_quoted_at(quote, old, new))
    unpriced = _command_to_price(pool) if price is None else None
    return replace(status, price=new if new != _NO_PRICE else None, unpriced=unpriced)


def _command_to_price(pool: PoolSnapshot) -> str:
    """Return a command with which an admin sets the price; prices on nodes come before it."""
    example = json.dumps({"spec": {"usdPerHour": "<USD>"}}, separators=(",", ":"))
    return f"kubectl patch cpool {pool.name} --type=merge -p '{example}'"


def _quoted_at(quote: Quote | None, old: NodePrice, new: NodePrice) -> datetime | None:
    """Return when the source gave the price; a repeated price rarely counts as new."""
    if quote is None or quote.as_of is None:
        return None
    is_same = replace(new, as_of=old.as_of) == old
    if is_same and old.as_of is not None and quote.as_of - old.as_of < REPEAT_AFTER:
        return old.as_of
    return quote.as_of
