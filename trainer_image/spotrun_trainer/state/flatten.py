"""A training state as one flat tree: tensors by name, and everything else as JSON.

Nothing here can execute code: a value that is not a number, string, bool, None, list, tuple, dict
or tensor is refused when it is flattened, so a state can be read back without unpickling (by
`unflatten`). JSON has neither tuples nor keys that are not strings, so these are marked by objects
with a single key that begins with "$"; dicts that have such a key themselves are marked as well.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import Any, cast

import torch
from torch import Tensor

from spotrun_trainer.parallel.local import PLAIN_KINDS, division_of, local

JSON = None | bool | int | float | str | list["JSON"] | dict[str, "JSON"]

MOST_DEPTH = 100
"""Deeper than any state seen, and well below Python's own recursion limit."""

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.complex128, torch.complex64, torch.float64, torch.float32, torch.float16),
        *(torch.bfloat16, torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2),
        *(torch.float8_e5m2fnuz, torch.int64, torch.int32, torch.int16, torch.int8),
        *(torch.uint64, torch.uint32, torch.uint16, torch.uint8, torch.bool),
    )
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_PLAIN = {type(None), bool, int, str}  # the types that JSON reads back unchanged


@dataclass(frozen=True)
class Spec:
    """The type and shape that a tensor needs to take another's content."""

    dtype: str  # a key of DTYPES
    shape: tuple[int, ...]

    @classmethod
    def of(cls, tensor: Tensor) -> "Spec":
        """Return the spec of a tensor that flattening accepted."""
        return cls(_NAMES[tensor.dtype], tuple(tensor.shape))

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return DTYPES[self.dtype].itemsize

    @property
    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def title(self) -> str:
        """Return the spec as people write it."""
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class Layout:
    """A description of some tensors, without their elements."""

    specs: Mapping[str, Spec]  # of those that have elements of their own
    aliases: Mapping[str, str]  # name: the one it shares storage with, as tied weights do
    scattered: frozenset[str]  # not contiguous
    on_gpu: frozenset[str]

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> "Layout":
        """Examine the tensors."""
        first: dict[tuple[object, ...], str] = {}
        aliases = {}
        for name, tensor in tensors.items():
            strides = None if tensor.is_contiguous() else tensor.stride()  # of size 1: any
            view = (tensor.data_ptr(), tensor.dtype, tensor.shape, strides, tensor.device)
            if tensor.numel() and (known := first.setdefault(view, name)) != name:
                aliases[name] = known
        own = {name: tensor for name, tensor in tensors.items() if name not in aliases}
        return cls(
            {name: Spec.of(tensor) for name, tensor in own.items()},
            aliases,
            frozenset(name for name, tensor in own.items() if not tensor.is_contiguous()),
            frozenset(name for name, tensor in own.items() if tensor.is_cuda),
        )


@dataclass
class Flat:
    """The live tensors, not copies of them, and the values around them.

    One of them may require gradients, such as a tensor of a script's own object.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    values: dict[str, JSON] = field(default_factory=dict)
    volatile: frozenset[str] = frozenset()
    """Tensors that may change before the next update: buffers change in a forward pass."""

    @cached_property
    def layout(self) -> Layout:
        """The description of its tensors, and which of them share storage."""
        return Layout.of(self.tensors)

    def specs(self) -> dict[str, Spec]:
        """Return the spec of each tensor."""
        return {name: Spec.of(tensor) for name, tensor in self.tensors.items()}


@dataclass(frozen=True)
class Branch:
    """A dict of tensors, or of dicts of tensors or of plain values, as it was when flattened."""

    keys: object
    paths: Sequence[str]
    rest: JSON


def flatten(
    tree: object,
    path: str,
    tensors: dict[str, Tensor],
    branches: dict[str, Branch] | None = None,
) -> JSON:
    """Move the tensors of a tree into `tensors`, named by their paths, and return the rest.

    `branches` are those of the last call, by their paths: where one has the same keys its tensors
    are taken without being examined. New ones are added.
    """
    return _Flattener(tensors, branches).of(tree, path, 0)


class _Flattener:
    def __init__(self, tensors: dict[str, Tensor], branches: dict[str, Branch] | None) -> None:
        self._tensors = tensors
        self._branches = branches

    def of(self, value: object, path: str, depth: int) -> JSON:
        if depth > MOST_DEPTH:
            raise ValueError(f"{path} is nested deeper than {MOST_DEPTH}: does it contain itself?")
        if value is None or type(value) in (bool, int, str):
            return cast("JSON", value)
        if isinstance(value, Tensor):
            return self._tensor(value, path)
        if (scalar := _scalar(value)) is not None:
            return scalar
        if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
            return self.of(cast("Any", value).item(), path, depth + 1)
        return self._container(value, path, depth + 1)

    def _tensor(self, tensor: Tensor, path: str) -> JSON:
        part = local(tensor)
        if why := _unfit(part):
            raise ValueError(f"{path} cannot be saved: {why}")
        if path in self._tensors:
            raise ValueError(f"two tensors are called {path}: rename one of the keys")
        self._tensors[path] = part.detach()
        if part is tensor:
            return {"$tensor": path}
        return division_of(tensor).mark(path)

    def _container(self, value: object, path: str, depth: int) -> JSON:
        if isinstance(value, list):
            return self._items(value, path, depth)
        if isinstance(value, tuple) and type(value) in (tuple, torch.Size):
            return {"$tuple": self._items(value, path, depth)}
        if isinstance(value, OrderedDict) and (versions := getattr(value, "_metadata", None)):
            rest = self.of(versions, f"{path}'s versions", depth)  # a branch of its own
            return {"$module": [self._dict(value, path, depth), rest]}
        if isinstance(value, Counter):
            return {"$counter": self._dict(value, path, depth)}
        if isinstance(value, dict):
            return self._dict(value, path, depth)
        raise ValueError(
            f"{path} cannot be saved: it is a {_name(type(value))}, and a state holds tensors, "
            "numbers, strings, bools, None, lists, tuples and dicts; leave it out of state_dict()"
        )

    def _items(self, values: Sequence[object], path: str, depth: int) -> list[JSON]:
        if _PLAIN.issuperset(map(type, values)):
            return cast("list[JSON]", list(values))
        return [self.of(value, f"{path}/{index}", depth) for index, value in enumerate(values)]

    def _dict(self, content: Mapping[Any, Any], path: str, depth: int) -> JSON:
        if self._branches is None or (found := _keys_and_tensors(content)) is None:
            return self._entries(content, path, depth)
        keys, tensors = found
        known = self._branches.get(path)
        if known is not None and known.keys == keys:
            self._tensors.update(zip(known.paths, tensors, strict=True))
            return known.rest
        num_before = len(self._tensors)
        rest = self._entries(content, path, depth)
        paths = list(islice(self._tensors, num_before, None))
        self._branches[path] = Branch(keys, paths, rest)
        return rest

    def _entries(self, content: Mapping[Any, Any], path: str, depth: int) -> JSON:
        if all(type(key) is str and not key.startswith("$") for key in content):
            return {key: self.of(at, _below(path, key), depth) for key, at in content.items()}
        return {
            "$dict": [
                [self._key(key, path, depth), self.of(value, _below(path, key), depth)]
                for key, value in content.items()
            ]
        }

    def _key(self, key: object, path: str, depth: int) -> JSON:
        if type(key) not in (str, int, bool, float, tuple) and key is not None:
            raise ValueError(f"{path} cannot be saved: a {_name(type(key))} is one of its keys")
        return self.of(key, f"{path}'s key", depth)


def _keys_and_tensors(content: Mapping[Any, Any]) -> tuple[object, Iterable[Tensor]] | None:
    """Return the keys and tensors of a dict of tensors, of such dicts, or of plain ones; else None.

    A state has thousands of these, and they hardly change: so nothing is done here one by one.
    Plain values, such as the versions of a module's parts, are among the keys, with their types.
    """
    inner = content.values()
    keys: list[object] = [list(content), list(map(type, content))]
    kinds = set(map(type, inner))
    if kinds == {Tensor}:
        return keys, inner
    if kinds != {dict}:
        return None
    keys += [list(map(tuple, inner))]
    if set(map(type, chain.from_iterable(inner))) != {str}:
        return None
    leaves = list(chain.from_iterable(map(dict.values, inner)))
    types = list(map(type, leaves))
    kinds = set(types)
    if kinds == {Tensor}:
        return keys, leaves
    return ([*keys, leaves, types], ()) if kinds <= _PLAIN else None


def _scalar(value: object) -> JSON:
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, torch.dtype) and value in DTYPES.values():
        return {"$dtype": str(value).removeprefix("torch.")}
    return {"$device": str(value)} if isinstance(value, torch.device) else None


def _below(path: str, key: object) -> str:
    # Escaped as in JSON pointers: else {"a": {"b": t}} and {"a/b": t} would share a name.
    return f"{path}/" + str(key).replace("~", "~0").replace("/", "~1")


def _unfit(tensor: Tensor) -> str | None:
    if type(tensor) not in PLAIN_KINDS:
        return f"it is a {_name(type(tensor))}, and only plain tensors can be saved"
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        return "it is not dense: keep it as a dense tensor"
    if tensor.is_meta:
        return "it is on the meta device and has no content yet"
    if tensor.dtype not in DTYPES.values():
        return f"spotrun does not know its type {tensor.dtype}: convert it"
    return None


def _name(kind: type) -> str:
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
