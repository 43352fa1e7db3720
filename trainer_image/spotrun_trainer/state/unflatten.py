"""A state as it was before it was flattened: a tree of tensors and values, from its JSON.

Only what `flatten` writes is read: each mark has one function that makes its value, and none of
them runs anything that the content names.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from spotrun_trainer.parallel.local import divided
from spotrun_trainer.state.flatten import DTYPES, JSON, MOST_DEPTH

_Marks = Mapping[str, Callable[[Any], Any]]


def unflatten(  # any tree
    value: JSON, tensors: Mapping[str, Tensor], mesh: object = None
) -> Any:  # noqa: ANN401
    """Rebuild the tree; raises ValueError for a value that `flatten` did not make.

    `mesh` are the processes that torch divides tensors among.
    """
    marks: _Marks = {**_MARKS, "$part": partial(_part, mesh)}
    return _unflatten(value, tensors, marks, 0)


def _unflatten(value: JSON, tensors: Mapping[str, Tensor], marks: _Marks, depth: int) -> Any:  # noqa: ANN401
    if depth > 3 * MOST_DEPTH:  # marks are levels too
        raise ValueError("its values are nested too deeply")
    if isinstance(value, list):
        return [_unflatten(item, tensors, marks, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    mark, inner = next(iter(value.items()), ("", None))
    if len(value) != 1 or not mark.startswith("$"):
        return {key: _unflatten(item, tensors, marks, depth + 1) for key, item in value.items()}
    if mark == "$tensor":
        if not isinstance(inner, str) or inner not in tensors:
            raise ValueError(f"its values name a tensor {str(inner)[:80]!r} that it does not have")
        return tensors[inner]
    if mark not in marks:
        raise ValueError(f"its values have a mark {mark[:20]!r} that spotrun does not know")
    content = _content(mark, inner, tensors, marks, depth + 1)
    try:
        return marks[mark](content)
    except (TypeError, ValueError, KeyError, RuntimeError) as error:
        raise ValueError(f"its values have a {mark} that is none: {str(inner)[:80]}") from error


def _content(
    mark: str, inner: JSON, tensors: Mapping[str, Tensor], marks: _Marks, depth: int
) -> object:
    if mark != "$dict":
        return _unflatten(inner, tensors, marks, depth)
    if not isinstance(inner, list) or any(not _is_pair(pair) for pair in inner):
        raise ValueError("its values have a $dict that is not a list of pairs")
    return [_unflatten(pair, tensors, marks, depth + 1) for pair in inner]


def _is_pair(value: JSON) -> bool:
    return isinstance(value, list) and len(value) == 2


def _part(mesh: object, content: Any) -> Tensor:  # noqa: ANN401  # may be anything
    if mesh is None:
        raise TypeError("no processes are there to divide a tensor among")
    part, shape, by, _offsets = content
    return divided(part, mesh, shape, by)


def _module_state(content: Any) -> OrderedDict[str, Any]:  # noqa: ANN401  # may be anything
    state, versions = content
    loaded = OrderedDict(state)
    vars(loaded)["_metadata"] = versions  # as torch returns it
    return loaded


_MARKS: dict[str, Callable[[Any], Any]] = {
    "$tuple": tuple,
    "$dict": dict,
    "$counter": Counter,
    "$module": _module_state,
    "$float": float,
    "$dtype": DTYPES.__getitem__,
    "$device": torch.device,
}
