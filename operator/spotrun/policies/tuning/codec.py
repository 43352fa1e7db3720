"""The storage format of a search's state: only `read` and `write` convert it."""

import json
import math
import re
from collections.abc import Mapping

from spotrun.api.field_types.amounts import Amount, Percent
from spotrun.api.field_types.bounded import MAX_DETAIL_CHARS
from spotrun.api.tuning import status as api
from spotrun.api.tuning.tuningjob import TuningJobSpec
from spotrun.api.tuning.words import TuningReason
from spotrun.money.units import Usd
from spotrun.policies.tuning.state import (
    Best,
    Counts,
    Trial,
    TuningCost,
    TuningState,
)
from spotrun.search.placeholders import text_of
from spotrun.search.space import Value, Values
from spotrun.search.trial import Report
from spotrun.state.stored.optional_values import moment_of, time_of
from spotrun.state.stored.statements_codec import read_conditions, write_conditions

_MOST_CHARS = 1_250_000
"""The most for all trials without their messages: etcd takes objects of 1.5 MB, with the spec."""
_MESSAGES_CHARS = 100_000
"""The most for the messages of all trials together."""
_FIXED_CHARS = 700
"""The size of a trial with all its fields, and of its entries in `metadata.managedFields`."""
_LEAST_COURSE_CHARS = 60
_NUMBER_CHARS = 24

_REASONS = {reason.value: reason for reason in TuningReason}
_SPOKEN = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false")


def read(status: api.TuningJobStatus) -> TuningState:
    """Read the state from the status of a TuningJob."""
    return TuningState(
        phase=status.phase,
        reason=_REASONS.get(status.reason or ""),
        message=status.message,
        observed_generation=status.observed_generation,
        counts=_read_counts(status.trials),
        best=_read_best(status.best),
        cost=_read_cost(status.cost),
        pareto=status.pareto or (),
        grid_size=status.grid_size,
        conditions=read_conditions(status.conditions),
        trials=tuple(map(_read_trial, status.history or ())),
        started_at=moment_of(status.started_at),
        ended_at=moment_of(status.ended_at),
    )


def write(state: TuningState) -> api.TuningJobStatus:
    """Write the state as it is stored."""
    return api.TuningJobStatus.model_construct(
        phase=state.phase,
        reason=state.reason,
        message=state.message,
        observed_generation=state.observed_generation,
        trials=_write_counts(state.counts),
        best=_write_best(state.best),
        cost=_write_cost(state.cost),
        pareto=state.pareto or None,
        grid_size=state.grid_size,
        conditions=write_conditions(state.conditions),
        history=_write_trials(state.trials) or None,
        started_at=time_of(state.started_at),
        ended_at=time_of(state.ended_at),
    )


def most_trials(spec: TuningJobSpec) -> int:
    """Return how many trials the status has room for, whatever values they have."""
    longest = sum(
        _chars(one.name, max(one.categorical.choices, key=lambda text: len(json.dumps(text))))
        if one.categorical is not None
        else _chars(one.name, "0" * _NUMBER_CHARS)
        for one in spec.parameters
    )
    return _MOST_CHARS // (_FIXED_CHARS + _LEAST_COURSE_CHARS + longest)


def read_value(text: str) -> Value:
    """Read a value that may be a number or a truth value; anything else is text."""
    if _SPOKEN.fullmatch(text) is None:
        return text
    read: Value = json.loads(text) if not re.match("-?0[0-9]", text) else text
    # 1e999 would be an infinity, which is written as a word and is not read back.
    return text if isinstance(read, float) and math.isinf(read) else read


def _read_values(values: Mapping[str, str]) -> Values:
    return {name: read_value(text) for name, text in values.items()}


def _write_values(values: Values) -> dict[str, str]:
    return {name: text_of(value) for name, value in values.items()}


def _read_trial(stored: api.Trial) -> Trial:
    return Trial(
        number=stored.number,
        values=_read_values(stored.parameters),
        phase=stored.phase,
        value=_read_number(stored.value),
        step=stored.step,
        course=_read_course(stored.course),
        rung=stored.rung,
        usd=Usd.of(stored.usd),
        cap_usd=_optional(stored.cap_usd),
        expected_usd=_optional(stored.expected_usd),
        reason=_REASONS.get(stored.reason or ""),
        message=stored.message,
        parent=stored.parent,
        checkpoint=stored.checkpoint,
        outcome=stored.outcome,
        begun_at=moment_of(stored.begun_at),
        ended_at=moment_of(stored.ended_at),
    )


def _write_trials(trials: tuple[Trial, ...]) -> tuple[api.Trial, ...]:
    """Write the trials so that all fit into an object: the more trials, the shorter each is."""
    count = max(len(trials), 1)
    values = sum(
        _chars(name, text_of(given)) for one in trials for name, given in one.values.items()
    )
    left = (_MOST_CHARS - values) // count - _FIXED_CHARS
    course_chars = min(max(left, _LEAST_COURSE_CHARS), api.MOST_COURSE_CHARS)
    message_chars = min(MAX_DETAIL_CHARS, _MESSAGES_CHARS // count)
    return tuple(_write_trial(one, course_chars, message_chars) for one in trials)


def _chars(name: str, value: str) -> int:
    """Return the size of a parameter in a trial; the name of a field is written twice."""
    return 2 * len(name) + len(json.dumps(value)) + 14


def _write_trial(trial: Trial, course_chars: int, message_chars: int) -> api.Trial:
    return api.Trial.model_construct(
        number=trial.number,
        phase=trial.phase,
        parameters=_write_values(trial.values),
        value=_write_number(trial.value) if trial.value is not None else None,
        step=trial.step,
        course=_write_course(trial.course, course_chars) or None,
        rung=trial.rung,
        usd=trial.usd.amount if trial.usd else None,
        cap_usd=_amount(trial.cap_usd),
        expected_usd=_amount(trial.expected_usd),
        reason=trial.reason,
        message=trial.message[:message_chars] if trial.message else None,
        parent=trial.parent,
        checkpoint=trial.checkpoint,
        outcome=trial.outcome,
        begun_at=time_of(trial.begun_at),
        ended_at=time_of(trial.ended_at),
    )


def _read_number(text: str | None) -> float | None:
    return float(text) if text is not None else None


def _write_number(number: float) -> str:
    return f"{number:.9g}" if math.isfinite(number) else str(number)


def _read_course(text: str | None) -> tuple[Report, ...]:
    points = (point.split(":") for point in (text or "").split())
    return tuple(Report(int(step), float(value)) for step, value in points)


def _write_course(course: tuple[Report, ...], most_chars: int) -> str:
    """Write what there is room for: the first, the newest, and evenly spaced points.

    They are evenly spaced by the ratio of their steps, like the rungs of pruning: if every other
    point were dropped repeatedly, a rung would be judged by values of much later steps.
    """
    words = [(point.step, f"{point.step}:{point.value:.6g}") for point in course]
    num_chars = sum(len(word) + 1 for _, word in words) - 1
    while num_chars > most_chars and len(words) > 2:
        gaps = [(words[at + 1][0] + 1) / (words[at - 1][0] + 1) for at in range(1, len(words) - 1)]
        _, dropped = words.pop(1 + gaps.index(min(gaps)))
        num_chars -= len(dropped) + 1
    return " ".join(word for _, word in words)


def _read_counts(stored: api.TrialCounts | None) -> Counts:
    if stored is None:
        return Counts()
    _, _, most = (stored.summary or "0/0").partition("/")
    return Counts(
        most=int(most) if most.isdecimal() else 0,
        running=stored.running or 0,
        succeeded=stored.succeeded or 0,
        pruned=stored.pruned or 0,
        stopped=stored.stopped or 0,
        failed=stored.failed or 0,
    )


def _write_counts(counts: Counts) -> api.TrialCounts:
    return api.TrialCounts.model_construct(
        summary=f"{counts.ended}/{counts.most}",
        running=counts.running,
        succeeded=counts.succeeded,
        pruned=counts.pruned,
        stopped=counts.stopped,
        failed=counts.failed,
    )


def _read_best(stored: api.BestTrial | None) -> Best | None:
    if stored is None:
        return None
    return Best(
        trial=stored.trial,
        name=stored.name,
        value=float(stored.value),
        step=stored.step,
        values=_read_values(stored.parameters or {}),
        checkpoint=stored.checkpoint,
    )


def _write_best(best: Best | None) -> api.BestTrial | None:
    if best is None:
        return None
    return api.BestTrial.model_construct(
        trial=best.trial,
        name=best.name,
        value=_write_number(best.value),
        step=best.step,
        parameters=_write_values(best.values),
        checkpoint=best.checkpoint,
    )


def _read_cost(stored: api.TuningCost | None) -> TuningCost:
    if stored is None:
        return TuningCost()
    percent = stored.budget_used_percent
    return TuningCost(
        usd=Usd.of(stored.usd),
        reserved_usd=_optional(stored.reserved_usd),
        forecast_usd=_optional(stored.forecast_usd),
        trial_usd=_optional(stored.trial_usd),
        epoch_usd=_optional(stored.epoch_usd),
        saved_by_pruning_usd=_optional(stored.saved_by_pruning_usd),
        budget_used_percent=int(percent.decimal) if percent is not None else None,
        as_of=moment_of(stored.as_of),
    )


def _write_cost(cost: TuningCost) -> api.TuningCost:
    percent = cost.budget_used_percent
    return api.TuningCost.model_construct(
        usd=cost.usd.amount,
        reserved_usd=_amount(cost.reserved_usd),
        forecast_usd=_amount(cost.forecast_usd),
        trial_usd=_amount(cost.trial_usd),
        epoch_usd=_amount(cost.epoch_usd),
        saved_by_pruning_usd=_amount(cost.saved_by_pruning_usd),
        budget_used_percent=Percent(f"{percent}%") if percent is not None else None,
        as_of=time_of(cost.as_of),
    )


def _optional(amount: Amount | None) -> Usd | None:
    return Usd.of(amount) if amount is not None else None


def _amount(usd: Usd | None) -> Amount | None:
    return usd.amount if usd is not None else None
