"""The parameters of this training, as a search has chosen them."""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from typing_extensions import override

ENV = "SPOTRUN_PARAMS"

Value = str | int | float | bool


class Params(Mapping[str, Any]):
    """Parameters by name: `params["lr"]`, or `params.lr`."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = dict(values)

    @override
    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            raise KeyError(
                f"there is no parameter {name!r}: this training has the parameters "
                f"{', '.join(map(repr, self._values)) or 'none'}; give params() a default for one "
                "that only some trials have"
            )
        return self._values[name]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a Value, of the type that it has
        if name.startswith("__"):  # asked for by copy and pickle
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    @override
    def __len__(self) -> int:
        return len(self._values)

    @override
    def __repr__(self) -> str:
        return f"params({self._values})"


def params(defaults: Mapping[str, Value] | None = None, /, **more: Value) -> Params:
    """Return the parameters of this trial: `params(lr=1e-3, layers=2)`.

    In a trial of a TuningJob they are the trial's; elsewhere, such as on a laptop, the defaults. A
    parameter that has a default must be of its type: an int where the default is one, and a float
    also where the trial has a whole number.
    """
    known = {**(defaults or {}), **more}
    text = os.environ.get(ENV)
    if not text:
        if not known:
            raise ValueError(
                f"this training has no parameters: {ENV} is not set, as it is in the trials of a "
                "TuningJob. For other runs give defaults, such as params(lr=1e-3)"
            )
        return Params(known)
    given = _read(text)
    typed = {
        name: _typed(name, given[name], default) for name, default in known.items() if name in given
    }
    return Params({**known, **given, **typed})


def _read(text: str) -> dict[str, Value]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{ENV} is not JSON ({error}): {text[:80]!r}") from None
    is_flat = isinstance(content, dict) and all(
        isinstance(value, str | int | float | bool) for value in content.values()
    )
    if not is_flat:
        raise ValueError(
            f"{ENV} must be a JSON object of numbers, texts and booleans by name, such as "
            f'{{"lr": 0.001}}, not {text[:80]!r}'
        )
    return dict(content)


def _typed(name: str, value: Value, default: Value) -> Value:
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not type(default):
        raise ValueError(
            f"the parameter {name} is {value!r} in this trial, but its default {default!r} is of "
            f"type {type(default).__name__}: give both the same type"
        )
    return value
