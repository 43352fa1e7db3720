"""The expected cost of a job before it has run, from the prices of the cluster's pools. Pure."""

from collections.abc import Iterator, Sequence
from decimal import Decimal

from spotrun.cli.jobs.pool_model import Pool
from spotrun.cli.submit.wishes import Wishes
from spotrun.cli.text.words import amount, span, usd

_ALLOWED = {
    "Spot": frozenset({"Spot"}),
    "OnDemand": frozenset({"OnDemand", "Reserved"}),
    "Mixed": frozenset({"Spot", "OnDemand", "Reserved"}),
}


def expectation(wishes: Wishes, pools: Sequence[Pool]) -> list[str]:
    """Return the expected cost, in lines."""
    prices = sorted(_prices(wishes, pools))
    if not prices:
        return [
            (
                "Cost: not known before it runs, because no CapacityPool with a price can hold a "
                "worker. `kubectl get cpool` shows the pools, `kubectl tjob doctor` the prices"
            )
        ]
    (low, cheap), (high, dear) = prices[0], prices[-1]
    per_worker = f"{usd(low)}/h a worker in {cheap}"
    if high > low:
        per_worker += f", up to {usd(high)}/h in {dear}"
    least, most = low * wishes.least, high * wishes.most
    between = f"{usd(least)}/h" if least == most else f"{usd(least)}/h to {usd(most)}/h"
    lines = [f"Cost: {per_worker}; {_size(wishes)}: {between}"]
    if wishes.budget_usd and most:
        budget = amount(wishes.budget_usd)
        short, long = (span(float(budget / rate * 3600)) for rate in (most, least or most))
        lasts = short if short == long else f"{short} to {long}"
        lines.append(f"Budget: {usd(wishes.budget_usd)} lasts for {lasts} at these prices")
    return lines


def _prices(wishes: Wishes, pools: Sequence[Pool]) -> Iterator[tuple[Decimal, str]]:
    """Yield what a worker costs in each pool that can hold one: its share of the node's GPUs."""
    allowed = _ALLOWED[wishes.capacity or "Mixed"]
    for pool in pools:
        price, node = pool.status.price.usd_per_hour, pool.status.node
        if price is None or pool.spec.capacity not in allowed:
            continue
        gpus = node.gpus if node else 0
        if wishes.gpus and gpus < wishes.gpus:
            continue
        share = Decimal(wishes.gpus) / gpus if wishes.gpus else Decimal(1)
        yield amount(price) * share, pool.metadata.name


def _size(wishes: Wishes) -> str:
    if wishes.least == wishes.most:
        return f"{wishes.least} worker{'s' if wishes.least > 1 else ''}"
    return f"{wishes.least} to {wishes.most} workers"
