"""Values that manifests carry as text: durations, times, lists of numbers.

Each is a `str` that is checked when it is created and has a parsed view, so the text is written
back unchanged. The check and the CEL rule in the CRD are built from the same pattern.
"""

import datetime as dt
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema
from typing_extensions import override

from spotrun.api.field_types.intervals import (
    Interval,
    Ranges,
    read_intervals,
    runs_of,
    write_intervals,
)


class Text(str):
    """A string of a known form; subclasses define and describe the form."""

    __slots__ = ()

    # Only syntax that means the same in `re` and Go's RE2: no \d (Unicode in Python), no lookahead.
    pattern: ClassVar[str]
    max_length: ClassVar[int]
    # What to write instead: the text that follows the name of the field.
    hint: ClassVar[str]
    # What the pattern cannot express, in CEL; `holds` checks the same in Python.
    further_cel: ClassVar[str] = ""
    _compiled: ClassVar[re.Pattern[str]]

    @override
    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._compiled = re.compile(cls.pattern, re.ASCII)

    def __new__(cls, text: str) -> Self:
        value = super().__new__(cls, text)
        if len(text) > cls.max_length:
            raise ValueError(f"Too long: may not be more than {cls.max_length} bytes")
        # fullmatch, because `$` in Python also matches before a final newline.
        if cls._compiled.fullmatch(text) is None or not value.holds():
            raise ValueError(f"{cls.hint} (this is {value.shown()})")
        return value

    def shown(self) -> str:
        """Return the text that a message may show; subclasses hide secrets."""
        return repr(self)

    def holds(self) -> bool:
        """Whether text that matches the pattern is valid; subclasses check the rest."""
        return True

    @classmethod
    def cel(cls) -> str:
        """Return the rule that the API server checks."""
        quoted = cls.pattern.replace("\\", "\\\\").replace("'", "\\'")
        matches = f"self.matches('^({quoted})$')"
        return f"{matches} && {cls.further_cel}" if cls.further_cel else matches

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            cls, core_schema.str_schema(strict=True)
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {
            "type": "string",
            "pattern": f"^({cls.pattern})$",
            "maxLength": cls.max_length,
            "x-kubernetes-validations": [{"rule": cls.cel(), "message": cls.hint}],
        }


_NUMBER = r"[0-9]{1,6}(\.[0-9]{1,3})?"
_IN_UNITS = (
    'in h, m, s and ms, largest unit first, like "90s" or "1h30m"; '
    "there are no days: write 48h for two"
)
_PART = re.compile(r"([0-9.]+)(ms|s|m|h)")
_UNIT_SECONDS = {
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}


class Duration(Text):
    """A length of time as Go writes it, largest unit first: `90s`, `1h30m`, `1.5h`."""

    __slots__ = ()
    # At most 999,999 hours: every value fits Go's 64-bit nanoseconds, in which CEL counts. The
    # alternatives mean "at least one unit"; RE2 has no shorter way to express it.
    pattern = (
        rf"{_NUMBER}h({_NUMBER}m)?({_NUMBER}s)?({_NUMBER}ms)?"
        rf"|{_NUMBER}m({_NUMBER}s)?({_NUMBER}ms)?"
        rf"|{_NUMBER}s({_NUMBER}ms)?|{_NUMBER}ms"
    )
    max_length = 44
    hint = f"must be a duration {_IN_UNITS}"

    @property
    def exact_seconds(self) -> Decimal:
        """The length in seconds, without rounding."""
        parts = _PART.findall(self)
        return sum((Decimal(number) * _UNIT_SECONDS[unit] for number, unit in parts), Decimal(0))

    @property
    def seconds(self) -> float:
        """The length in seconds."""
        return float(self.exact_seconds)

    @property
    def timedelta(self) -> dt.timedelta:
        """The length as a timedelta."""
        return dt.timedelta(milliseconds=float(self.exact_seconds * 1000))

    @classmethod
    def of(cls, seconds: float) -> Self:
        """Write a number of seconds, to the millisecond."""
        milliseconds = round(seconds * 1000)
        hours, rest = divmod(milliseconds, 3_600_000)
        minutes, rest = divmod(rest, 60_000)
        whole, rest = divmod(rest, 1000)
        sizes = ((hours, "h"), (minutes, "m"), (whole, "s"), (rest, "ms"))
        return cls("".join(f"{size}{unit}" for size, unit in sizes if size) or "0s")


class PositiveDuration(Duration):
    """A duration above zero."""

    __slots__ = ()
    further_cel = "duration(self) > duration('0s')"
    hint = f"must be a duration longer than 0s {_IN_UNITS}"

    @override
    def holds(self) -> bool:
        return self.exact_seconds > 0


class AutoOrDuration(Text):
    """`Auto`, or a duration above zero."""

    __slots__ = ()
    pattern = f"Auto|{Duration.pattern}"
    max_length = Duration.max_length
    further_cel = "(self == 'Auto' || duration(self) > duration('0s'))"
    hint = f"must be Auto or a duration longer than 0s {_IN_UNITS}"

    @property
    def duration(self) -> PositiveDuration | None:
        """The duration, or None for Auto."""
        return None if self == "Auto" else PositiveDuration(self)

    @override
    def holds(self) -> bool:
        return self == "Auto" or Duration(self).exact_seconds > 0


class Time(Text):
    """A time as RFC 3339 writes it: `2026-03-01T08:00:00Z`."""

    __slots__ = ()
    # From the year 2000 on, so that every offset stays in the years that CEL and Python know.
    pattern = (
        r"2[0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
        r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
        r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
    )
    max_length = 32
    # A day that the month does not have is an error inside timestamp(), so it is refused as well.
    further_cel = "timestamp(self) > timestamp('1999-01-01T00:00:00Z')"
    hint = 'must be a time with its zone as RFC 3339 has it, like "2026-03-01T08:00:00Z"'

    @property
    def datetime(self) -> dt.datetime:
        """The time, with its zone."""
        return dt.datetime.fromisoformat(self)

    @classmethod
    def of(cls, moment: dt.datetime) -> Self:
        """Write a time in UTC."""
        assert moment.tzinfo is not None, "a time needs its zone"
        return cls(moment.astimezone(dt.UTC).isoformat().replace("+00:00", "Z"))

    @override
    def holds(self) -> bool:
        try:
            return self.datetime is not None
        except ValueError:
            return False


class Intervals(Text):
    """A set or list of numbers of workers, in order, as compact intervals: `0-41,43`.

    A long one begins with `+` and is written as distances, which are shorter: each number in it
    counts from the one before. `+100003,2-4,9` is `100003,100005-100009,100018`.
    """

    __slots__ = ("_intervals", "_ranges")
    pattern = (
        r"([0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*)?"
        r"|\+[0-9]{1,9}(-[0-9]{1,9})?(,-?[0-9]{1,9}(-[0-9]{1,9})?)*"
    )
    # Twice the workers of the largest job (replacements exist beside them), in any order.
    max_length = 262_144
    hint = 'must be numbers and intervals between commas, like "0-41,43", or distances, like "+9,2"'
    _intervals: tuple[Interval, ...]
    _ranges: Ranges

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """The first and the last number of each interval; parsed once."""
        try:
            return self._intervals
        except AttributeError:
            self._intervals = read_intervals(self)
            return self._intervals

    @property
    def ranges(self) -> Ranges:
        """The numbers as a set; created once."""
        try:
            return self._ranges
        except AttributeError:
            self._ranges = Ranges.of(self.intervals)
            return self._ranges

    @classmethod
    def of_intervals(cls, intervals: Iterable[Interval]) -> Self:
        """Write intervals in the given order; a long list in the shorter form."""
        runs = tuple(intervals)
        value = cls(write_intervals(runs))
        value._intervals = runs
        return value


class WorkerIds(Intervals):
    """Numbers of workers, in order; few enough to go through one by one."""

    __slots__ = ("_numbers", "_set")
    _numbers: tuple[int, ...]
    _set: frozenset[int]

    @property
    def numbers(self) -> tuple[int, ...]:
        """All numbers, in the written order; parsed once."""
        try:
            return self._numbers
        except AttributeError:
            runs = self.intervals
            self._numbers = tuple(n for first, last in runs for n in range(first, last + 1))
            return self._numbers

    @property
    def set(self) -> frozenset[int]:
        """All numbers, without order; created once."""
        try:
            return self._set
        except AttributeError:
            self._set = frozenset(self.numbers)
            return self._set

    @classmethod
    def of(cls, worker_ids: Iterable[int]) -> Self:
        """Write numbers in the given order, successive ones as intervals."""
        return cls.of_intervals(runs_of(worker_ids))
