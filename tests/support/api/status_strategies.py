"""Random statuses: whatever the CRD allows, each text in the form in which we write it."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from spotrun.api.cost import ChargeEnd, EarlierRate, Rate
from spotrun.api.field_types.amounts import Amount, Measured, Percent, SignedAmount
from spotrun.api.field_types.text_values import Intervals, Text, Time, WorkerIds
from spotrun.api.meta import ReasonText
from spotrun.api.model import Model
from spotrun.api.status import Metric, TrainingJobStatus
from spotrun.api.status_parts.metric_course import MetricCourse
from spotrun.api.status_parts.stage_status import StageStatus
from spotrun.wire import value_text

M = TypeVar("M", bound=Model)

_NUMBERS = st.lists(st.integers(0, 40), max_size=6)
_MEASURED = st.floats(-1e300, 1e300).map(lambda one: Measured(value_text(one)))
_MEASURED |= st.sampled_from(["NaN", "Infinity", "-Infinity"]).map(Measured)
_DECIMALS = st.decimals(0, 10**6, places=3)
_TIMES = st.integers(1_600_000_000, 1_900_000_000).map(lambda s: datetime.fromtimestamp(s, UTC))

_TEXTS: dict[type[Text], st.SearchStrategy[Any]] = {
    Time: _TIMES.map(Time.of),
    WorkerIds: _NUMBERS.map(WorkerIds.of),
    Intervals: _NUMBERS.map(lambda some: Intervals(WorkerIds.of(sorted(set(some))))),
    Amount: _DECIMALS.map(Amount.of),
    SignedAmount: st.decimals(Decimal(-9), Decimal(9), places=2).map(
        lambda one: SignedAmount.of(one + 0)  # no "-0"
    ),
    Measured: _MEASURED,
    Percent: st.integers(0, 999).map(lambda one: Percent(f"{one}%")),
    ReasonText: st.sampled_from(["Training", "Running"]).map(ReasonText),
}


_TEXTS_OF_FIELDS: dict[tuple[type[Model], str], st.SearchStrategy[Any]] = {
    (Rate, "usd_per_hour"): _DECIMALS.map(Amount.of),
    (Rate, "since"): _TIMES.map(Time.of),
    (EarlierRate, "usd_per_hour"): _DECIMALS.map(Amount.of),
    (EarlierRate, "since"): _TIMES.map(Time.of),
    (ChargeEnd, "at"): _TIMES.map(Time.of),
    (StageStatus, "name"): st.sampled_from(["warmup", "long-1"]),
    (MetricCourse, "metric"): st.sampled_from(["loss", "val loss"]),
    (TrainingJobStatus, "metrics"): st.dictionaries(  # never an empty one
        st.sampled_from(["loss", "val loss"]),
        st.builds(Metric, value=_MEASURED, step=st.integers(0, 10**6)),
        min_size=1,
    ),
}
"""The fields whose form the API server does not check, with what their writer writes there."""


def statuses(model: type[M]) -> st.SearchStrategy[M]:
    """Return statuses of which each field may be there or not."""
    return _model(model).map(model.model_validate)


def _model(model: type[Model]) -> st.SearchStrategy[Any]:
    given = {
        name: _TEXTS_OF_FIELDS[model, name] if (model, name) in _TEXTS_OF_FIELDS else _field(info)
        for name, info in model.model_fields.items()
    }
    required = {n: one for n, one in given.items() if model.model_fields[n].is_required()}
    optional = {name: one for name, one in given.items() if name not in required}
    return st.fixed_dictionaries(required, optional=optional).map(model.model_validate)


def _field(info: FieldInfo) -> st.SearchStrategy[Any]:
    return _values(info.annotation, tuple(info.metadata))


def _values(kind: Any, bounds: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
    arguments = get_args(kind)
    match get_origin(kind):
        case None:
            return _plain(kind, bounds)
        case origin if origin is Annotated:
            return _values(arguments[0], (*bounds, *arguments[1:]))
        case origin if origin in {Union, UnionType}:
            # What is absent is drawn as a field that is left out.
            return st.one_of(*(_values(one, bounds) for one in arguments if one is not NoneType))
        case origin if origin is tuple:
            unique = isinstance(arguments[0], type) and issubclass(arguments[0], Enum)
            some = st.lists(_values(arguments[0]), max_size=2, unique=unique)
            return some.map(tuple)
        case origin if origin is dict:
            return st.dictionaries(st.sampled_from("abc"), _values(arguments[1]), max_size=2)
    raise AssertionError(f"no strategy for {kind}")


def _plain(kind: type, bounds: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    if issubclass(kind, Model):
        return _model(kind)
    if issubclass(kind, Text):
        return _TEXTS[kind]
    makers: dict[type, Callable[[], st.SearchStrategy[Any]]] = {
        bool: st.booleans,
        int: lambda: st.integers(_bound(bounds, "ge", 0), _bound(bounds, "le", 10**6)),
        str: lambda: st.sampled_from(["", "a", "a b", "a-1"]),
    }
    return makers[kind]()


def _bound(bounds: tuple[Any, ...], name: str, default: int) -> int:
    found: list[int] = []
    for one in bounds:
        parts = one.metadata if isinstance(one, FieldInfo) else (one,)
        found += [getattr(part, name) for part in parts if hasattr(part, name)]
    return found[-1] if found else default
