"""The page of a search: its state in a few lines, and its trials as a table, the best first."""

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import mean

from spotrun.api.spec.stop_when import Direction
from spotrun.api.tuning.status import Trial, TuningJobStatus
from spotrun.api.tuning.tuningjob import TuningJob
from spotrun.api.tuning.words import TrialPhase
from spotrun.cli.jobs.tune.axes import SHOWN, axes, drawn, has_value, number_of, short
from spotrun.cli.text.look import columns_of
from spotrun.money.units import Usd

_LEAST_TRIALS = 5
"""Fewer complete trials say nothing about which parameter matters."""
_BAR = 20


def page(search: TuningJob) -> str:
    """Return all that is printed."""
    status = search.status or TuningJobStatus()
    lines = [*summary(search, status), ""]
    if not status.history:
        return "\n".join([*lines, "no trial has begun"])
    ranked = ranked_trials(search)
    lines += trial_lines(search, ranked)
    best = [one.number for one in ranked if has_value(one)]
    if len(best) >= _LEAST_TRIALS:
        lines += ["", f"where the best {SHOWN} trials lie (1 is the best, a dot is another one):"]
        lines += [f"  {line}" for line in drawn(axes(search, ranked), best)]
    if weights := importance(search, ranked):
        lines += ["", "how strongly the metric follows each parameter (rank correlation):"]
        width = max(len(name) for name, _ in weights)
        lines += [
            f"  {name:{width}}  {'#' * round(_BAR * abs(value)):{_BAR}}  {value:+.2f}"
            for name, value in weights
        ]
    return "\n".join(lines)


def importance(search: TuningJob, trials: Iterable[Trial]) -> list[tuple[str, float]]:
    """Return the rank correlation of each numeric parameter with the metric, largest first."""
    complete = [one for one in trials if one.phase is TrialPhase.SUCCEEDED and one.value]
    found = []
    for parameter in search.spec.parameters:
        pairs = [
            (number, float(one.value or "nan"))
            for one in complete
            if (number := number_of(one.parameters.get(parameter.name))) is not None
        ]
        if len(pairs) >= _LEAST_TRIALS:
            xs, ys = (_ranks(side) for side in zip(*pairs, strict=True))
            found.append((str(parameter.name), _correlation(xs, ys)))
    return sorted(found, key=lambda entry: -abs(entry[1]))


def summary(search: TuningJob, status: TuningJobStatus) -> Iterator[str]:
    """Yield the state of a search, its cost and where its best model is."""
    phase = status.phase.value if status.phase is not None else "not looked at yet"
    yield f"{search.metadata.name}: {phase}"
    if status.message:
        yield status.message
    cost = status.cost
    if cost is not None:
        parts = [f"{Usd.of(cost.usd)} spent"]
        if cost.forecast_usd is not None:
            parts.append(f"{Usd.of(cost.forecast_usd)} expected at the end")
        if cost.trial_usd is not None:
            parts.append(f"a whole trial {Usd.of(cost.trial_usd)}")
        if cost.epoch_usd is not None:
            parts.append(f"an epoch {Usd.of(cost.epoch_usd)}")
        if cost.saved_by_pruning_usd is not None:
            parts.append(f"{Usd.of(cost.saved_by_pruning_usd)} saved by pruning")
        yield "cost: " + ", ".join(parts)
    if status.best is not None and status.best.checkpoint is not None:
        yield f"best checkpoint: {status.best.checkpoint}"


def ranked_trials(search: TuningJob) -> list[Trial]:
    """Return all trials, the best first; those without a value last."""
    trials = (search.status or TuningJobStatus()).history or ()
    return sorted(trials, key=lambda one: _rank(search, one))


def trial_lines(search: TuningJob, trials: Sequence[Trial]) -> Iterator[str]:
    """Yield the table of trials."""
    rows = trial_rows(search, trials)
    widths = [max(map(columns_of, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell + " " * (width - columns_of(cell)) for cell, width in zip(row, widths, strict=True)
        )
        yield "   ".join(cells).rstrip()


def trial_rows(search: TuningJob, trials: Sequence[Trial]) -> list[list[str]]:
    """Return the cells of the table of trials; the first row names the columns."""
    names = [str(parameter.name) for parameter in search.spec.parameters]
    head = ["TRIAL", "PHASE", search.spec.objective.metric.upper(), "STEP", "COST($)"]
    if has_parents := any(one.parent is not None for one in trials):
        head.append("FROM")
    rows = [[*head, *(name.upper() for name in names)]]
    for one in trials:
        values = [short(one.parameters.get(name)) for name in names]
        cost = f"{Usd.of(one.usd).decimal:.4f}"
        step = str(one.step) if one.step is not None else "-"
        number = [str(one.number), _stage(one), short(one.value), step, cost]
        if has_parents:
            number.append(str(one.parent) if one.parent is not None else "-")
        rows.append([*number, *values])
    return rows


def _stage(trial: Trial) -> str:
    """Return the phase, and the reason why a held trial waits."""
    is_held = trial.phase in (TrialPhase.PENDING, TrialPhase.RUNNING) and trial.reason
    return f"{trial.phase.value}, {trial.reason}" if is_held else trial.phase.value


def _rank(search: TuningJob, trial: Trial) -> tuple[bool, float, int]:
    value = number_of(trial.value)
    is_last = value is None or trial.phase is TrialPhase.FAILED
    sign = -1 if search.spec.objective.direction is Direction.MAXIMIZE else 1
    return is_last, sign * (value or 0.0), trial.number


def _ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value; equal values share the mean of their ranks."""
    ordered = sorted(values)
    return [mean(n for n, one in enumerate(ordered) if one == value) for value in values]


def _correlation(xs: Sequence[float], ys: Sequence[float]) -> float:
    mean_x, mean_y = mean(xs), mean(ys)
    spread_x = math.sqrt(sum((x - mean_x) ** 2 for x in xs))
    spread_y = math.sqrt(sum((y - mean_y) ** 2 for y in ys))
    if not spread_x or not spread_y:
        return 0.0
    together = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return together / (spread_x * spread_y)
