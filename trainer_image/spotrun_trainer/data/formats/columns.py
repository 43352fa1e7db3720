"""A column of an Arrow batch, as a function of the row: numbers and lists of them as tensors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from spotrun_trainer.data.formats.pyarrow_module import load

Column = Callable[[int], object]

_WIDER = {"uint16": "int64", "uint32": "int64", "uint64": "int64"}
"""Types with little support in torch, and the types that their values are converted to."""

_MOST = (1 << 63) - 1


def column_of(array: Any) -> Column:  # noqa: ANN401 - of pyarrow
    """Return the values of a column by row."""
    column = None if array.null_count else _tensors(array)
    return column or (lambda row: _one_row(array.slice(row, 1)))


def _one_row(array: Any) -> object:  # noqa: ANN401 - of pyarrow
    """Return the value of an array's only row: nulls in other rows do not affect it."""
    types = load().types
    if array.null_count:
        return None
    if types.is_list(array.type) or types.is_large_list(array.type):
        values = _numbers(array.flatten())
        return array[0].as_py() if values is None else tensor(values)
    column = _tensors(array)
    return array[0].as_py() if column is None else column(0)


def _tensors(array: Any) -> Column | None:  # noqa: ANN401 - of pyarrow
    types = load().types
    if types.is_list(array.type) or types.is_large_list(array.type):
        return _lists(array.values, array.offsets.to_numpy())
    if types.is_fixed_size_list(array.type):
        size = array.type.list_size
        return _lists(array.flatten(), np.arange(len(array) + 1) * size)
    values = _numbers(array)
    return None if values is None else _one_of(values)


def _one_of(values: "np.ndarray[Any, Any]") -> Column:
    return lambda row: tensor(values[row : row + 1])[0]


def _lists(array: Any, starts: "np.ndarray[Any, Any]") -> Column | None:  # noqa: ANN401
    values = _numbers(array)
    if values is None:
        return None
    numbers = values
    return lambda row: tensor(numbers[starts[row] : starts[row + 1]])


def _numbers(array: Any) -> "np.ndarray[Any, Any] | None":  # noqa: ANN401 - of pyarrow
    arrow = load()
    is_number = arrow.types.is_integer(array.type) or arrow.types.is_floating(array.type)
    if not is_number or array.null_count:
        return None
    values: np.ndarray[Any, Any] = array.to_numpy(zero_copy_only=True)
    return values


def tensor(values: "np.ndarray[Any, Any]") -> torch.Tensor:
    """Return a copy of an array, in a type that torch computes with."""
    wider = _WIDER.get(values.dtype.name)
    if values.dtype == np.uint64 and values.size and values.max() > _MOST:
        raise ValueError(
            f"{values.max()} is too large for int64, the type of tensors: leave the column out "
            "with columns=, or store it as int64"
        )
    return torch.from_numpy(values.astype(wider or values.dtype, copy=True))
