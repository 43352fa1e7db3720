"""Metrics of searches, read from the status of TuningJobs at each scrape."""

from collections.abc import Iterator
from decimal import Decimal

from prometheus_client.core import Metric
from typing_extensions import override

from spotrun.api.tuning.words import TuningPhase
from spotrun.metrics.of_the_leader import OfTheLeader
from spotrun.metrics.per_job_numbers import Figure, by_phase, families
from spotrun.money.units import NO_USD, Usd
from spotrun.policies.tuning.snapshot import TuningSnapshot
from spotrun.policies.tuning.state import OVER

_PREFIX = "spotrun_tuningjob"
_LABELS = ("namespace", "name")


class Searches(OfTheLeader[TuningSnapshot]):
    """Metrics of searches."""

    @override
    def metrics_of(self, known: list[TuningSnapshot]) -> Iterator[Metric]:
        searches = sorted(known, key=lambda one: (_is_over(one), one.namespace, one.name))
        phases = (one.status.phase for one in searches)
        yield by_phase("spotrun_tuningjobs", "Searches by phase.", TuningPhase, phases)
        shown = [((one.namespace, one.name), one) for one in self.first(searches)]
        yield from families(_OF_SEARCHES, _LABELS, shown, prefix=_PREFIX)
        trials = [
            ((*labels, state), number)
            for labels, one in shown
            for state, number in _trials(one).items()
        ]
        yield from families(_OF_TRIALS, (*_LABELS, "state"), trials, prefix=_PREFIX)
        best = [
            ((*labels, one.spec.objective.metric), one.status.best.value)
            for labels, one in shown
            if one.status.best is not None
        ]
        yield from families(_OF_BEST, (*_LABELS, "metric"), best, prefix=_PREFIX)


def _is_over(search: TuningSnapshot) -> bool:
    return search.status.phase in OVER


def _trials(search: TuningSnapshot) -> dict[str, int]:
    counts = search.status.counts
    return {
        "running": counts.running,
        "succeeded": counts.succeeded,
        "pruned": counts.pruned,
        "stopped": counts.stopped,
        "failed": counts.failed,
    }


def _left(search: TuningSnapshot) -> Decimal | None:
    budget = search.spec.budget
    if budget is None or budget.max_cost_usd is None:
        return None
    return max(Usd.of(budget.max_cost_usd) - search.status.cost.usd, NO_USD).decimal


_OF_SEARCHES: tuple[Figure[TuningSnapshot], ...] = (
    Figure("cost_usd", "Spent by all trials.", False, lambda one: one.status.cost.usd.decimal),
    Figure("budget_left_usd", "Rest of budget.maxCostUsd that is not spent.", False, _left),
)

_OF_TRIALS: tuple[Figure[int], ...] = (
    Figure("trials", "Trials of a search by state.", False, float),
)

_OF_BEST: tuple[Figure[float], ...] = (
    Figure("best_value", "Value of the objective that the best trial has.", False, float),
)
