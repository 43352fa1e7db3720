"""Weights of other programs, read into a module, in any way that torch has divided it.

Each process reads its own ranges, and nothing is sent between them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from spotrun_trainer.checkpoint.foreign.source import Source, pieces
from spotrun_trainer.parallel.division import Box
from spotrun_trainer.parallel.local import division_of, is_divided, local
from spotrun_trainer.state.flatten import DTYPES, Spec
from spotrun_trainer.state.tracked import some_of


@dataclass(frozen=True)
class Loaded:
    """The result of a load."""

    tensors: int
    prefix: str  # of the names in the file
    unread: Sequence[str]  # names there
    missing: Sequence[str]  # names here; none unless that was allowed


def load_into(
    module: nn.Module, source: Source, *, prefix: str | None = None, strict: bool = True
) -> Loaded:
    """Fill a module's parameters and buffers; raises one ValueError that lists all misfits.

    Names in the file may begin with a prefix. If none is given, the prefix that matches the most
    names is taken. Numbers of another floating-point type are converted.
    """
    state = {name: one for name, one in module.state_dict().items() if isinstance(one, Tensor)}
    if prefix is None:
        prefix = prefix_of(list(state), source.specs)
    known = {name: prefix + name for name in state if prefix + name in source.specs}
    missing = _missing(module, state, known)
    problems = [f"not in the weights: {some_of(missing)}"] if missing and strict else []
    problems += _misfits(state, known, source.specs)
    if problems or not known:
        raise ValueError("; ".join(problems) or "it has none of the model's tensors")
    for name, there in known.items():
        _fill(state[name], source, there)
    read = set(known.values())
    unread = [name for name in source.specs if name not in read and name.startswith(prefix)]
    return Loaded(len(known), prefix, unread, missing)


def prefix_of(names: Sequence[str], known: Mapping[str, Spec]) -> str:
    """Return the prefix that matches most of a module's names in the file; none if that works."""
    if not names or all(name in known for name in names):
        return ""
    ends = {"", *(end for name in (names[0], names[-1]) for end in _before(name, known))}
    found = {end: sum(end + name in known for name in names) for end in ends}
    most = max(found.values())
    best = sorted(end for end, count in found.items() if count == most)
    if len(best) > 1 and most:
        raise ValueError(
            f"it has the model several times: choose one with prefix=, one of {', '.join(best)}"
        )
    return best[0]


def _before(name: str, known: Mapping[str, Spec]) -> Iterator[str]:
    """Yield what precedes a name in the file: the modules that contain it."""
    for one in known:
        if one == name or one.endswith(f".{name}"):
            yield one[: -len(name)]


def _missing(module: nn.Module, names: Iterable[str], known: Mapping[str, str]) -> list[str]:
    """Return the missing names, except those of tied weights that are found under another name."""
    every = [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]
    objects = {name: id(one) for name, one in every}
    there = {objects.get(name) for name in known}
    return [name for name in names if name not in known and objects.get(name, 0) not in there]


def _misfits(
    state: Mapping[str, Tensor], known: Mapping[str, str], specs: Mapping[str, Spec]
) -> list[str]:
    found = []
    for name, there in known.items():
        here, spec = Spec.of(state[name]), specs[there]
        if here.shape != spec.shape or not _is_convertible(spec.dtype, here.dtype):
            found.append(
                f"{name} is {spec.title()} in the weights, but {here.title()} in the model"
            )
    return [some_of(found)] if found else []


def _is_convertible(there: str, here: str) -> bool:
    return there == here or (DTYPES[there].is_floating_point and DTYPES[here].is_floating_point)


@torch.no_grad()
def _fill(tensor: Tensor, source: Source, there: str) -> None:
    box = division_of(tensor).box if is_divided(tensor) else Box.whole(tuple(tensor.shape))
    target, dtype = local(tensor), DTYPES[source.specs[there].dtype]
    if not box.numel:
        return
    if target.dtype == dtype and target.is_contiguous() and target.device.type == "cpu":
        source.fill(there, box, target)
        return
    for piece in pieces(box.shape, dtype.itemsize):
        content = torch.empty(piece.shape, dtype=dtype)
        source.fill(there, _within(box, piece), content)
        _part(target, piece).copy_(content)


def _within(box: Box, piece: Box) -> Box:
    """Return the place, in the whole tensor, of a part of a part."""
    return Box(tuple(map(int.__add__, box.offsets, piece.offsets)), piece.shape)


def _part(tensor: Tensor, box: Box) -> Tensor:
    for dim, (offset, size) in enumerate(zip(box.offsets, box.shape, strict=True)):
        tensor = tensor.narrow(dim, offset, size)
    return tensor
