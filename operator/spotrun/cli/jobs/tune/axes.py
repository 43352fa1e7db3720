"""Parallel coordinates: an axis for each parameter and one for the metric, a line for each trial.

Pure; `table.py` prints them as text, and `kubectl tjob report` draws them.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spotrun.api.tuning.parameters import Parameter
from spotrun.api.tuning.status import Trial
from spotrun.api.tuning.tuningjob import TuningJob
from spotrun.api.tuning.words import TrialPhase
from spotrun.cli.text.look import columns_of

SHOWN = 5
"""The number of best trials that are drawn with a digit each."""
_ROWS = 7
_MOST_DOTS = 3


@dataclass(frozen=True)
class Axis:
    """An axis from its lowest value to its highest."""

    name: str
    low: str
    high: str
    heights: Mapping[int, float]  # by the trial's number: from 0 to 1; none for one without a value


def axes(search: TuningJob, ranked: Iterable[Trial]) -> list[Axis]:
    """Return the axes of the trials that have a value, in the order of the spec; the metric last.

    Numbers of a range lie between its bounds, by their logarithm for `logUniform`; choices lie at
    equal distances in their order. The metric has the values that were measured.
    """
    trials = [one for one in ranked if has_value(one)]
    found = [_of_parameter(one, trials) for one in search.spec.parameters]
    metric = search.spec.objective.metric
    return [*found, _between(metric, {one.number: float(one.value or "nan") for one in trials})]


def has_value(trial: Trial) -> bool:
    """Whether a trial has a place on the axis of the metric."""
    return trial.phase is not TrialPhase.FAILED and number_of(trial.value) is not None


def drawn(axes: Sequence[Axis], best: Sequence[int]) -> Iterator[str]:
    """Yield the lines of the picture: digits are the best trials, dots are the others."""
    shown = {number: str(place) for place, number in enumerate(best[:SHOWN], start=1)}
    columns = [_column(axis, shown) for axis in axes]
    for row in zip(*columns, strict=True):
        yield "   ".join(row).rstrip()


def number_of(text: str | None) -> float | None:
    """Return a finite number; None for anything else."""
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def short(text: str | None) -> str:
    """Return a value in few characters."""
    if text is None:
        return "-"
    number = number_of(text)
    return text if number is None or text.lstrip("-").isdecimal() else f"{number:.5g}"


def _of_parameter(parameter: Parameter, trials: Sequence[Trial]) -> Axis:
    name, texts = (
        str(parameter.name),
        {one.number: one.parameters.get(parameter.name) for one in trials},
    )
    given = {number: text for number, text in texts.items() if text is not None}
    if (choice := parameter.categorical) is not None:
        places = {str(text): n for n, text in enumerate(choice.choices)}
        last = max(len(places) - 1, 1)
        heights = {n: places[text] / last for n, text in given.items() if text in places}
        return Axis(name, choice.choices[0], choice.choices[-1], heights)
    values = {n: value for n, text in given.items() if (value := number_of(text)) is not None}
    if (of_logs := parameter.log_uniform) is not None:
        logs = {n: math.log(value) for n, value in values.items() if value > 0}
        bounds = math.log(of_logs.min.number), math.log(of_logs.max.number)
        return Axis(name, str(of_logs.min), str(of_logs.max), _heights(logs, *bounds))
    if (number := parameter.int) is not None:
        heights = _heights(values, number.min, number.max)
        return Axis(name, str(number.min), str(number.max), heights)
    assert parameter.uniform is not None, "a parameter has one kind of range"
    low, high = parameter.uniform.min, parameter.uniform.max
    return Axis(name, str(low), str(high), _heights(values, low.number, high.number))


def _between(name: str, values: Mapping[int, float]) -> Axis:
    low, high = min(values.values(), default=0.0), max(values.values(), default=0.0)
    return Axis(name, f"{low:.5g}", f"{high:.5g}", _heights(values, low, high))


def _heights(values: Mapping[int, float], low: float, high: float) -> dict[int, float]:
    """Return where values lie between two bounds; in the middle if these are equal."""
    if high == low:
        return dict.fromkeys(values, 0.5)
    return {n: min(max((one - low) / (high - low), 0.0), 1.0) for n, one in values.items()}


def _column(axis: Axis, shown: Mapping[int, str]) -> list[str]:
    cells: list[list[int]] = [[] for _ in range(_ROWS)]
    for number, height in axis.heights.items():
        cells[round((1 - height) * (_ROWS - 1))].append(number)
    lines = [axis.name.upper(), axis.high, *(_cell(cell, shown) for cell in cells), axis.low]
    width = max(map(columns_of, lines))
    return [line + " " * (width - columns_of(line)) for line in lines]


def _cell(numbers: Sequence[int], shown: Mapping[int, str]) -> str:
    digits = "".join(sorted(shown[one] for one in numbers if one in shown))
    others = sum(one not in shown for one in numbers)
    return f"| {digits}{'.' * min(others, _MOST_DOTS)}{'+' * (others > _MOST_DOTS)}"
