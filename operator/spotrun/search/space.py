"""The values that trials may have: ranges and choices, some only under a condition."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

Value = str | int | float | bool
Values = Mapping[str, Value]

MOST_PARAMETERS = 20
"""The maximum number of parameters: the Sobol sequence here has that many dimensions."""
MOST_GRID = 10_000
"""The maximum number of trials of a grid."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """A number between two bounds; all values are equally likely."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _check_bounds(self.low, self.high)

    def at(self, position: float) -> float:
        """Return the value at a position from 0 to below 1."""
        return min(self.low + position * (self.high - self.low), self.high)

    def position(self, value: Value) -> float:
        """Return the position of a value."""
        return (float(value) - self.low) / (self.high - self.low)

    def near(self, value: Value, factor: float) -> float:
        """Return the value times a factor, within the bounds."""
        return min(max(float(value) * factor, self.low), self.high)


@dataclass(frozen=True, slots=True)
class LogUniform:
    """A number between two bounds above 0; each power of ten is equally likely."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _check_bounds(self.low, self.high)
        if self.low <= 0:
            raise ValueError(
                f"logUniform begins at {self.low:g}: give a min above 0, or use uniform"
            )

    def at(self, position: float) -> float:
        """Return the value at a position from 0 to below 1."""
        value = math.exp(math.log(self.low) + position * math.log(self.high / self.low))
        return min(max(value, self.low), self.high)

    def position(self, value: Value) -> float:
        """Return the position of a value."""
        return math.log(float(value) / self.low) / math.log(self.high / self.low)

    def near(self, value: Value, factor: float) -> float:
        """Return the value times a factor, within the bounds."""
        return min(max(float(value) * factor, self.low), self.high)


@dataclass(frozen=True, slots=True)
class Int:
    """A whole number from `low` to `high`, in steps that count from `low`."""

    low: int
    high: int
    step: int = 1

    def __post_init__(self) -> None:
        _check_bounds(self.low, self.high)
        if self.step < 1:
            raise ValueError(f"int has a step of {self.step}: give 1 or more")

    @property
    def count(self) -> int:
        """The number of values."""
        return (self.high - self.low) // self.step + 1

    def at(self, position: float) -> int:
        """Return the value at a position from 0 to below 1."""
        return self.low + min(int(position * self.count), self.count - 1) * self.step

    def position(self, value: Value) -> float:
        """Return the position of a value: the middle of the positions that give it."""
        return ((float(value) - self.low) / self.step + 0.5) / self.count

    def near(self, value: Value, factor: float) -> int:
        """Return the value times a factor, at least one step away, within the bounds."""
        at = (float(value) - self.low) / self.step
        moved = round((float(value) * factor - self.low) / self.step)
        if moved == at:
            moved += 1 if factor > 1 else -1
        return self.low + min(max(moved, 0), self.count - 1) * self.step


@dataclass(frozen=True, slots=True)
class Categorical:
    """One of several choices, all equally likely."""

    choices: tuple[Value, ...]

    def __post_init__(self) -> None:
        if not self.choices:
            raise ValueError("categorical has no choices: give at least one")
        if len(set(map(_identity, self.choices))) != len(self.choices):
            raise ValueError("categorical has the same choice twice: give each choice once")

    @property
    def count(self) -> int:
        """The number of values."""
        return len(self.choices)

    def at(self, position: float) -> Value:
        """Return the choice at a position from 0 to below 1."""
        return self.choices[min(int(position * self.count), self.count - 1)]

    def index(self, value: Value) -> int:
        """Return the index of a choice; raises ValueError if there is no such choice."""
        return [_identity(choice) for choice in self.choices].index(_identity(value))

    def position(self, value: Value) -> float:
        """Return the position of a choice: the middle of the positions that give it."""
        return (self.index(value) + 0.5) / self.count

    def near(self, value: Value, factor: float) -> Value:
        """Return the same choice: choices have no order, so no other one is near."""
        return value


Domain = Uniform | LogUniform | Int | Categorical


@dataclass(frozen=True, slots=True)
class When:
    """The condition under which a parameter exists: another parameter has one of these values."""

    parameter: str
    values: tuple[Value, ...]

    def holds(self, values: Values) -> bool:
        """Whether these values meet the condition; not met if the other parameter is missing."""
        if self.parameter not in values:
            return False
        return _identity(values[self.parameter]) in map(_identity, self.values)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the training, and the values that it may have."""

    name: str
    domain: Domain
    when: tuple[When, ...] = ()  # all of them must hold

    def is_active(self, values: Values) -> bool:
        """Whether the parameter exists if the ones before it have these values."""
        return all(condition.holds(values) for condition in self.when)


@dataclass(frozen=True, slots=True)
class Space:
    """The parameters in their order; a condition names a parameter that comes before it."""

    parameters: tuple[Parameter, ...]

    def __post_init__(self) -> None:
        known: dict[str, Parameter] = {}
        if not 1 <= len(self.parameters) <= MOST_PARAMETERS:
            raise ValueError(
                f"there are {len(self.parameters)} parameters: give 1 to {MOST_PARAMETERS}"
            )
        for parameter in self.parameters:
            if parameter.name in known:
                raise ValueError(f"the parameter {parameter.name} is there twice: name each once")
            for condition in parameter.when:
                _check_condition(parameter.name, condition, known)
            known[parameter.name] = parameter

    def fill(self, choose: Callable[[Parameter], Value]) -> dict[str, Value]:
        """Return a value for each parameter that exists, given the values chosen before it."""
        values: dict[str, Value] = {}
        for parameter in self.parameters:
            if parameter.is_active(values):
                values[parameter.name] = choose(parameter)
        return values

    def at(self, position: Callable[[str], float]) -> dict[str, Value]:
        """Return the values by parameter name, at positions of at least 0 and below 1."""
        return self.fill(lambda parameter: parameter.domain.at(position(parameter.name)))

    def grid(self) -> Iterator[dict[str, Value]]:
        """Yield the points of a grid; the last parameter changes first.

        Raises ValueError if a parameter has infinitely many values, or the grid is too large.
        """
        size = self.grid_size()
        assert size <= MOST_GRID
        yield from self._points(0, {})

    def grid_size(self) -> int:
        """Return the number of points of a grid; raises ValueError as `grid` does."""
        for parameter in self.parameters:
            if isinstance(parameter.domain, Uniform | LogUniform):
                raise ValueError(  # noqa: TRY004 - a user's mistake
                    f"a grid cannot try all values of {parameter.name}, which is a range: give "
                    "categorical choices or an int, or search with random or sobol"
                )
        size = sum(1 for _ in islice(self._points(0, {}), MOST_GRID + 1))
        if size > MOST_GRID:
            raise ValueError(
                f"the grid has more than {MOST_GRID} points: give fewer choices or a larger step, "
                "or search with random or sobol"
            )
        return size

    def _points(self, first: int, values: dict[str, Value]) -> Iterator[dict[str, Value]]:
        if first == len(self.parameters):
            yield dict(values)
            return
        parameter = self.parameters[first]
        if not parameter.is_active(values):
            yield from self._points(first + 1, values)
            return
        domain = parameter.domain
        assert isinstance(domain, Int | Categorical)
        for index in range(domain.count):
            value = domain.at((index + 0.5) / domain.count)
            yield from self._points(first + 1, {**values, parameter.name: value})


def _check_bounds(low: float, high: float) -> None:
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"the range from {low} to {high} is infinite: give finite bounds")
    if low >= high:
        raise ValueError(f"the range from {low:g} to {high:g} is empty: give a min below the max")


def _check_condition(name: str, condition: When, known: Mapping[str, Parameter]) -> None:
    asked = known.get(condition.parameter)
    if asked is None:
        raise ValueError(
            f"{name} exists when {condition.parameter} has some value, but no parameter of this "
            "name comes before it: list that one first"
        )
    if isinstance(asked.domain, Categorical):
        choices = [_identity(choice) for choice in asked.domain.choices]
        strange = [value for value in condition.values if _identity(value) not in choices]
        if strange:
            raise ValueError(
                f"{name} exists when {condition.parameter} is {strange[0]!r}, which is none of "
                f"its choices: {', '.join(map(repr, asked.domain.choices))}"
            )


def _identity(value: Value) -> tuple[bool, bool, Value]:
    """Return a key that differs for 1, true and "1"; 1 and 1.0 have the same key."""
    return (isinstance(value, bool), isinstance(value, str), value)
