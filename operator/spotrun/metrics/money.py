"""Metrics of a job's money: its cost, the work that this paid for, and the rest of its budget."""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import NamedTuple

from prometheus_client.core import Metric

from spotrun.agents.answers import Published
from spotrun.api.field_types.amounts import Percent
from spotrun.api.names import LABEL_COST_CENTER, LABEL_PROJECT, LABEL_TEAM, Pricing
from spotrun.metrics.per_job_numbers import Figure, Value, families
from spotrun.money.units import Usd, UsdPerHour
from spotrun.state.stored.cost import NO_COST, Accumulators, Cost, PoolCost, StorageCost

LABELS = ("namespace", "name", "team", "cost_center", "project")
_FROM = (LABEL_TEAM, LABEL_COST_CENTER, LABEL_PROJECT)


class _Money(NamedTuple):
    """The cost and its sums in a job's status."""

    cost: Cost
    sums: Accumulators


def money_families(jobs: Iterable[Published]) -> Iterator[Metric]:
    """Yield the known figures of each job; an unknown figure has no series."""
    every = [(_labels(job), job) for job in jobs]
    known = [
        (labels, _Money(job.status.cost, job.status.accumulators))
        for labels, job in every
        if job.status.cost != NO_COST
    ]
    yield from families(_OF_MONEY, LABELS, known)
    yield from families(_OF_JOBS, LABELS, every)
    wasted = [
        ((*labels, what), usd) for labels, money in known for what, usd in _wasted(money.cost)
    ]
    yield from families(_OF_WASTE, (*LABELS, "what"), wasted)
    pools = [
        ((*labels, spent.pool), spent) for labels, money in known for spent in money.cost.by_pool
    ]
    yield from families(_OF_POOLS, (*LABELS, "pool"), pools)
    storage = [(labels, money.cost.storage) for labels, money in known if money.cost.storage]
    yield from families(_OF_STORAGE, LABELS, storage)
    kinds = [((*labels, what), usd) for labels, cost in storage for what, usd in _kinds(cost)]
    yield from families(_OF_STORAGE_KINDS, (*LABELS, "what"), kinds)


def _num_unpriced(job: Published) -> int:
    """Count workers with an address but no rate: they have a node, and its price is unknown."""
    placed = {worker_id for worker_id, peer in job.peers.items() if peer.address is not None}
    return len(placed - job.status.accumulators.rates.keys())


def _wasted(cost: Cost) -> Iterator[tuple[str, Usd | None]]:
    waste = cost.waste
    yield "redone", waste.redone_usd
    yield "standstill", waste.standstill_usd
    yield "peers", waste.peers_usd
    yield "data", waste.data_usd
    yield "checkpoint", waste.checkpoint_usd


def _kinds(cost: StorageCost) -> Iterator[tuple[str, Usd | None]]:
    yield "stored", cost.stored_usd
    yield "requests", cost.requests_usd
    yield "transfer", cost.transfer_usd


def _number(money: Usd | UsdPerHour | None) -> Decimal | None:
    return money.decimal if money is not None else None


def _as_first_shown(usd: Usd | None, corrected: Usd | None) -> Decimal | None:
    """Return the sum before corrections: to Prometheus a falling counter means a restart."""
    if usd is None or corrected is None:
        return _number(usd)
    return (usd - corrected).decimal


def _corrected(usd: Usd | None, corrected: Usd | None) -> Value:
    return corrected.decimal if corrected else (0.0 if usd is not None else None)


def _ratio(percent: Percent | None) -> Decimal | None:
    return percent.decimal / 100 if percent is not None else None


def _labels(job: Published) -> tuple[str, ...]:
    return (job.namespace, job.name, *(job.cost_labels.get(label, "") for label in _FROM))


_OF_MONEY: tuple[Figure[_Money], ...] = (
    Figure(
        "cost_usd",
        "Spent so far, as it was first shown.",
        True,
        lambda of: _as_first_shown(of.cost.usd, of.cost.corrected_usd),
    ),
    Figure(
        "cost_corrected_usd",
        "Amount that later findings have added to it; negative where less was owed than was shown.",
        False,
        lambda of: _corrected(of.cost.usd, of.cost.corrected_usd),
    ),
    Figure(
        "spot_cost_usd",
        "Spent so far on spot capacity, as it was first shown.",
        True,
        lambda of: _as_first_shown(of.cost.spot_usd, of.cost.spot_corrected_usd),
    ),
    Figure(
        "spot_cost_corrected_usd",
        "Amount that later findings have taken from it; zero or negative.",
        False,
        lambda of: _corrected(of.cost.spot_usd, of.cost.spot_corrected_usd),
    ),
    Figure("cost_rate_usd_per_hour", "Spent now.", False, lambda of: _number(of.cost.usd_per_hour)),
    Figure(
        "on_demand_cost_usd",
        "The same useful work on the cheapest fitting on-demand capacity.",
        True,
        lambda of: _number(of.cost.on_demand_usd),
    ),
    Figure(
        "saved_usd",
        "On-demand cost minus the money spent; negative where spot cost more.",
        False,
        lambda of: _number(of.cost.saved_usd),
    ),
    Figure(
        "lost_work_cost_usd",
        "Spent on steps done twice and on stalls; contained in the money spent.",
        True,
        lambda of: _number(of.cost.lost_work_usd),
    ),
    Figure(
        "useful_cost_usd",
        "Spent on steps that were new and stay; contained in the money spent.",
        True,
        lambda of: _number(of.sums.useful_usd),
    ),
    Figure(
        "goodput_ratio",
        "Share of the money spent that bought steps which were new and stay.",
        False,
        lambda of: _ratio(of.cost.goodput),
    ),
    Figure(
        "idle_cost_usd",
        "Unused parts of nodes on which no other job runs; not in the money spent.",
        True,
        lambda of: _number(of.cost.idle_usd),
    ),
    Figure(
        "estimated_transfer_cost_usd",
        "Traffic of gradients between zones, as estimated; not in the money spent.",
        True,
        lambda of: _number(of.cost.estimated_transfer_usd),
    ),
    Figure(
        "interruption_cost_usd",
        "What the loss of a worker without notice would cost now; not in the money spent.",
        False,
        lambda of: _number(of.cost.interruption_usd),
    ),
    Figure(
        "forecast_cost_usd",
        "Expected cost of the job at its end.",
        False,
        lambda of: _number(of.cost.forecast_usd),
    ),
    Figure(
        "budget_used_ratio",
        "Share of budget.maxCostUsd that is spent.",
        False,
        lambda of: _ratio(of.cost.budget_used_percent),
    ),
    Figure(
        "pricing_complete",
        "1 if every worker's price is known, 0 if the sums are incomplete.",
        False,
        lambda of: of.cost.pricing and of.cost.pricing is Pricing.COMPLETE,
    ),
    Figure(
        "unpriced_seconds",
        "Time of settled workers whose price was never known; it is in no sum.",
        True,
        lambda of: of.sums.unpriced_seconds,
    ),
)

_OF_WASTE: tuple[Figure[Usd | None], ...] = (
    Figure(
        "wasted_cost_usd",
        "Spent on steps done again, standstills, waiting for peers or data inside of steps, and on "
        "saving between them.",
        True,
        _number,
    ),
)

_OF_STORAGE: tuple[Figure[StorageCost], ...] = (
    Figure(
        "stored_bytes",
        "Bytes of the job's checkpoints in its object store.",
        False,
        lambda of: of.stored_bytes,
    ),
    Figure(
        "storage_rate_usd_per_month",
        "Cost of these bytes per month, also after the job's end.",
        False,
        lambda of: _number(of.usd_per_month),
    ),
)

_OF_STORAGE_KINDS: tuple[Figure[Usd | None], ...] = (
    Figure(
        "storage_cost_usd",
        "Spent on checkpoints in an object store: bytes stored, requests, and traffic between "
        "regions; not in the money spent on workers.",
        True,
        _number,
    ),
)

_OF_POOLS: tuple[Figure[PoolCost], ...] = (
    Figure(
        "pool_cost_usd",
        "Spent so far, by the CapacityPool of the nodes (empty: none), as it was first shown.",
        True,
        lambda spent: _as_first_shown(spent.usd, spent.corrected_usd),
    ),
    Figure(
        "pool_cost_corrected_usd",
        "Amount that later findings have taken from it; zero or negative.",
        False,
        lambda spent: _corrected(spent.usd, spent.corrected_usd),
    ),
)

_OF_JOBS: tuple[Figure[Published], ...] = (
    Figure("budget_usd", "budget.maxCostUsd.", False, lambda job: job.budget_usd),
    Figure("unpriced_workers", "Workers on nodes without a known price.", False, _num_unpriced),
)
