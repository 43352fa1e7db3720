"""The content of a report on a search: what was tried, what it cost, and what was found. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from spotrun.api.tuning.status import Trial, TuningJobStatus
from spotrun.api.tuning.tuningjob import TuningJob
from spotrun.cli.jobs.tune.axes import axes, has_value
from spotrun.cli.jobs.tune.table import importance, ranked_trials, trial_rows
from spotrun.cli.report.content import Coordinates, Report, Section, cleaned
from spotrun.money.units import Usd

_IMPORTANCE = (
    "These are rank correlations of complete trials: near +1 or -1 the metric follows the "
    "parameter, near 0 it does not, or not in one direction."
)
_PARETO = "No other trial is better than these and cheaper as well."


def report_on_search(search: TuningJob, manifest: Mapping[str, Any], now: datetime) -> Report:
    """Put a report together from a search as the cluster stores it."""
    status = search.status or TuningJobStatus()
    ranked = ranked_trials(search)
    best = tuple(one.number for one in ranked if has_value(one))
    return Report(
        kind="Search",
        title=f"{search.metadata.namespace}/{search.metadata.name}",
        state=status.phase.value if status.phase is not None else "not seen",
        made_at=now,
        sections=tuple(_sections(search, status, ranked)),
        moments=(),
        manifest=cleaned(manifest),
        coordinates=Coordinates(tuple(axes(search, ranked)), best) if best else None,
    )


def _sections(
    search: TuningJob, status: TuningJobStatus, ranked: Sequence[Trial]
) -> Iterator[Section]:
    yield Section("What was found", tuple(_found(search, status)))
    yield Section("What it cost", tuple(_costs(status)))
    if weights := importance(search, ranked):
        rows = tuple((name, f"{value:+.2f}") for name, value in weights)
        yield Section("How strongly the metric follows each parameter", rows, (_IMPORTANCE,))
    if status.pareto:
        of = {one.number: one for one in ranked}
        pairs = [(of[n].value or "-", str(Usd.of(of[n].usd))) for n in status.pareto if n in of]
        numbers = (f"trial {n}" for n in status.pareto if n in of)
        rows3 = tuple((number, *pair) for number, pair in zip(numbers, pairs, strict=True))
        yield Section("The best for their cost", rows3, (_PARETO,))
    if ranked:
        yield Section("All trials, the best first", tuple(map(tuple, trial_rows(search, ranked))))
    told = tuple(
        (f"trial {one.number}", one.reason or "", one.message) for one in ranked if one.message
    )
    if told:
        yield Section("Messages of trials", told)


def _found(search: TuningJob, status: TuningJobStatus) -> Iterator[tuple[str, str]]:
    if status.message:
        yield "State", status.message
    objective = search.spec.objective
    yield "Metric", f"{objective.metric}, {objective.direction.value}"
    if (best := status.best) is not None:
        values = ", ".join(f"{name}={value}" for name, value in (best.parameters or {}).items())
        yield "The best", f"{best.name} with {best.value}: {values}"
        if best.checkpoint is not None:
            yield "Its checkpoint", best.checkpoint


def _costs(status: TuningJobStatus) -> Iterator[tuple[str, str]]:
    cost = status.cost
    if cost is None:
        return
    named = (
        ("Spent", cost.usd),
        ("Reserved for trials that run", cost.reserved_usd),
        ("Expected at the end", cost.forecast_usd),
        ("A whole trial", cost.trial_usd),
        ("An epoch", cost.epoch_usd),
        ("Saved by pruning", cost.saved_by_pruning_usd),
    )
    yield from ((name, str(Usd.of(usd))) for name, usd in named if usd is not None)
