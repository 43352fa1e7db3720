"""What Prometheus reads of money: from status when asked, so that no counter falls at a restart."""

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from spotrun.api.cost import Accumulators, Cost, Pricing
from spotrun.api.names import LABEL_COST_CENTER, LABEL_PROJECT, LABEL_TEAM
from spotrun.api.values import Serials
from spotrun.serve.told import Published

LABELS = ("namespace", "name", "team", "cost_center", "project")
_FROM = (LABEL_TEAM, LABEL_COST_CENTER, LABEL_PROJECT)


class _Figure(NamedTuple):
    name: str
    text: str
    is_counter: bool
    of: Callable[[Cost, Accumulators], str | Decimal | bool | None]


_FIGURES = (
    _Figure("cost_usd", "Spent so far.", True, lambda cost, _: cost.usd),
    _Figure("spot_cost_usd", "Of that, on spot capacity.", True, lambda cost, _: cost.spot_usd),
    _Figure("cost_rate_usd_per_hour", "Spent now.", False, lambda cost, _: cost.usd_per_hour),
    _Figure(
        "on_demand_cost_usd",
        "The same useful work on the cheapest fitting on-demand capacity.",
        True,
        lambda cost, _: cost.on_demand_usd,
    ),
    _Figure(
        "saved_usd",
        "On-demand cost minus what was spent; below zero where spot cost more.",
        False,
        lambda cost, _: cost.saved_usd,
    ),
    _Figure(
        "lost_work_cost_usd",
        "Spent on steps done twice and on stalls; contained in what was spent.",
        True,
        lambda cost, _: cost.lost_work_usd,
    ),
    _Figure(
        "useful_cost_usd",
        "Spent on steps that were new and stay; contained in what was spent.",
        True,
        lambda _, sums: sums.useful_usd,
    ),
    _Figure(
        "idle_cost_usd",
        "Unused parts of nodes on which no other job runs; not in what was spent.",
        True,
        lambda cost, _: cost.idle_usd,
    ),
    _Figure(
        "forecast_cost_usd",
        "What the job will have cost at its end.",
        False,
        lambda cost, _: cost.forecast_usd,
    ),
    _Figure(
        "budget_used_ratio",
        "Share of budget.maxCostUsd that is spent.",
        False,
        lambda cost, _: cost.budget_used_percent and cost.budget_used_percent.decimal / 100,
    ),
    _Figure(
        "pricing_complete",
        "1 where every worker's price is known, 0 where the sums are sums of a part.",
        False,
        lambda cost, _: cost.pricing and cost.pricing is Pricing.COMPLETE,
    ),
    _Figure(
        "unpriced_seconds",
        "Time of settled workers whose price was never known; it is in no sum.",
        True,
        lambda _, sums: sums.unpriced_seconds,
    ),
)


def money_families(jobs: Iterable[Published]) -> Iterator[Metric]:
    """What is known of each job; a figure that nobody knows has no series."""
    every = list(jobs)
    known = [job for job in every if job.status.cost is not None]
    for figure in _FIGURES:
        kind = CounterMetricFamily if figure.is_counter else GaugeMetricFamily
        family = kind(f"spotrun_trainingjob_{figure.name}", figure.text, labels=LABELS)
        for job in known:
            cost, sums = job.status.cost, job.status.accumulators
            value = figure.of(cost or Cost(), sums or Accumulators())
            if value is not None:
                family.add_metric(_labels(job), float(value))
        yield family
    yield from _of_jobs(every)


def _of_jobs(jobs: Iterable[Published]) -> Iterator[Metric]:
    budget = GaugeMetricFamily(
        "spotrun_trainingjob_budget_usd", "budget.maxCostUsd.", labels=LABELS
    )
    unpriced = GaugeMetricFamily(
        "spotrun_trainingjob_unpriced_workers",
        "Workers on nodes whose price nobody knows.",
        labels=LABELS,
    )
    for job in jobs:
        if job.budget_usd is not None:
            budget.add_metric(_labels(job), float(job.budget_usd))
        unpriced.add_metric(_labels(job), _num_unpriced(job))
    yield from (budget, unpriced)


def _num_unpriced(job: Published) -> int:
    """Workers have an address once they have a node, and a rate once somebody knows its price."""
    sums = job.status.accumulators or Accumulators()
    priced = {number for rate in sums.rates or () for number in Serials(rate.workers).numbers}
    placed = {serial for serial, peer in job.peers.items() if peer.address is not None}
    return len(placed - priced)


def _labels(job: Published) -> tuple[str, ...]:
    return (job.namespace, job.name, *(job.cost_labels.get(label, "") for label in _FROM))
