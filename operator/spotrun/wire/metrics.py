"""Values that a script measures, such as its loss: by name, each with its step.

Three keys of a report contain them. `metrics` is in all releases. `notFinite` has NaN and
infinities: JSON has no such numbers, and an operator of an earlier release would refuse the whole
report. `metricSteps` has the steps of both, in their order; older agents do not send it, and older
operators do not read it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from spotrun.wire.reading import object_of, one_line, whole

MOST_METRICS = 16
MOST_METRIC = 1e300
_NAME_CHARACTERS = 64
# One object each: reports are compared, and a NaN in a tuple equals only the same object.
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class Metric(NamedTuple):
    """The newest value of a metric of a script."""

    name: str
    value: float  # may be NaN or infinite
    step: int | None = None  # None: the sender does not say, so it is the report's step


def metrics_content(metrics: Sequence[Metric]) -> dict[str, Any]:
    """Return the keys of a report that contain metrics; none without metrics."""
    finite = [one for one in metrics if math.isfinite(one.value)]
    others = [one for one in metrics if not math.isfinite(one.value)]
    steps = [one.step for one in (*finite, *others)]
    content = {
        "metrics": {one.name: one.value for one in finite},
        "notFinite": {one.name: value_text(one.value) for one in others},
        "metricSteps": steps if any(step is not None for step in steps) else None,
    }
    return {key: value for key, value in content.items() if value}


def read_metrics(content: Mapping[str, Any]) -> tuple[Metric, ...]:
    """Read the metrics of a report or of a trainer's file; raises ValueError."""
    finite = object_of(content.get("metrics") or {}, "metrics")
    others = object_of(content.get("notFinite") or {}, "notFinite")
    found = {name: _number(value) for name, value in finite.items()}
    found |= {name: _NOT_FINITE.get(str(text)) for name, text in others.items()}
    values = {name: value for name, value in found.items() if value is not None}
    are_named = all(metric_name(name) == name != "" for name in values)
    if len(values) != len(found) or len(values) > MOST_METRICS or not are_named:
        raise ValueError(f"metrics are at most {MOST_METRICS} numbers with short names")
    steps = content.get("metricSteps") or [None] * len(values)
    if not isinstance(steps, list) or len(steps) != len(values):
        raise ValueError(f"metricSteps is a list of {len(values)} steps, one for each metric")
    read = zip(values.items(), map(_step, steps), strict=True)
    return tuple(Metric(name, value, step) for (name, value), step in read)


def metric_name(text: str) -> str:
    """Return a metric's name without characters that cannot be shown; it may be empty."""
    return one_line(text)[:_NAME_CHARACTERS].strip()


def metric_value(value: float) -> float | None:
    """Return a value as it is reported, None if it is too large for any reader."""
    if math.isfinite(value):
        return value if abs(value) <= MOST_METRIC else None
    return _NOT_FINITE[value_text(value)]


def value_text(value: float) -> str:
    """Return a value as text, from which `value_of_text` reads the same one."""
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def value_of_text(text: str) -> float:
    """Read a value's text; raises ValueError."""
    return _NOT_FINITE[text] if text in _NOT_FINITE else float(text)


def _step(value: object) -> int | None:
    return None if value is None else whole({"metricSteps": value}, "metricSteps")


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    is_too_large = isinstance(value, int) and abs(value) > MOST_METRIC  # for a float at all
    return None if is_too_large else metric_value(float(value))
