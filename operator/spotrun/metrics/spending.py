"""Metrics of SpendLimits, read from their status at each scrape."""

from collections.abc import Iterator
from decimal import Decimal

from prometheus_client.core import Metric
from typing_extensions import override

from spotrun.metrics.of_the_leader import OfTheLeader
from spotrun.metrics.per_job_numbers import Figure, families
from spotrun.policies.budget.spend.facts import Limit

_PREFIX = "spotrun_spendlimit"
_LABELS = ("namespace", "name")

NamespacedLimit = tuple[str, Limit]


class Spending(OfTheLeader[NamespacedLimit]):
    """Metrics of SpendLimits."""

    @override
    def metrics_of(self, known: list[NamespacedLimit]) -> Iterator[Metric]:
        found = sorted(known, key=lambda one: (one[0], one[1].name))
        shown = [((namespace, one.name), one) for namespace, one in self.first(found)]
        yield from families(_FIGURES, _LABELS, shown, prefix=_PREFIX)
        jobs = [
            ((*labels, state), number)
            for labels, one in shown
            for state, number in _jobs(one).items()
        ]
        yield from families(_OF_JOBS, (*_LABELS, "state"), jobs, prefix=_PREFIX)


def _jobs(limit: Limit) -> dict[str, int]:
    state = limit.state
    return {"running": state.running, "held": state.held, "suspended": state.suspended}


def _forecast(limit: Limit) -> Decimal | None:
    forecast = limit.state.forecast_usd
    return None if forecast is None else forecast.decimal


_FIGURES: tuple[Figure[Limit], ...] = (
    Figure("usd", "spec.limitUsd.", False, lambda one: one.usd.decimal),
    Figure(
        "spent_usd",
        "Spent in the present period, deleted jobs included.",
        False,
        lambda one: one.state.spent_usd.decimal,
    ),
    Figure(
        "reserved_usd",
        "Amount kept for jobs that run or may start.",
        False,
        lambda one: one.state.reserved_usd.decimal,
    ),
    Figure("forecast_usd", "Expected spending by the end of the period.", False, _forecast),
    Figure(
        "warn_ratio",
        "spec.warnAtPercent as a share.",
        False,
        lambda one: one.spec.warn_at_percent / 100,
    ),
)

_OF_JOBS: tuple[Figure[int], ...] = (Figure("jobs", "Jobs of a limit by state.", False, float),)
