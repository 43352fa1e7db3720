"""`diff`: the differences of two checkpoints, tensor by tensor and value by value."""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from spotrun_trainer.checkpoint.foreign.saved import Saved
from spotrun_trainer.checkpoint.foreign.source import pieces
from spotrun_trainer.parallel.division import Box
from spotrun_trainer.process.commands.texts import short, table
from spotrun_trainer.state.flatten import DTYPES, Spec


@dataclass(frozen=True)
class Differing:
    """A tensor that both have, with different elements."""

    name: str
    elements: int
    max_abs_difference: float  # nan if one has a number where the other has NaN


@dataclass(frozen=True)
class Comparison:
    """All differences."""

    only_in_first: list[str] = field(default_factory=list)
    only_in_second: list[str] = field(default_factory=list)
    retyped: dict[str, tuple[str, str]] = field(default_factory=dict)  # type or shape
    tensors: list[Differing] = field(default_factory=list)
    values: dict[str, tuple[str, str]] = field(default_factory=dict)
    equal: int = 0  # tensors

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not (
            self.only_in_first or self.only_in_second or self.retyped or self.tensors or self.values
        )

    def as_json(self) -> dict[str, Any]:
        """Return it as `-o json` prints it."""
        return asdict(self)

    def text(self) -> str:
        """Return a text for people, with the largest differences first."""
        lines = [
            *(f"only in the first: {name}" for name in self.only_in_first),
            *(f"only in the second: {name}" for name in self.only_in_second),
            *(f"{name}: {one} -> {other}" for name, (one, other) in self.retyped.items()),
            *(f"{name}: {one} -> {other}" for name, (one, other) in self.values.items()),
        ]
        if self.tensors:
            rows = [
                (one.name, str(one.elements), f"{one.max_abs_difference:.3g}")
                for one in sorted(self.tensors, key=_largest_first)
            ]
            lines.append(table(("TENSOR", "ELEMENTS", "MAX ABS DIFFERENCE"), rows))
        lines.append(f"{len(self.tensors)} tensors differ, {self.equal} are equal")
        return "\n".join(lines)


def compare(first: Saved, second: Saved, told: Callable[[int], object]) -> Comparison:
    """Compare two checkpoints as a whole; `told` gets the progress, in bytes of the first."""
    one, other = first.specs, second.specs
    both = [name for name in one if name in other]
    retyped = {n: (one[n].title(), other[n].title()) for n in both if one[n] != other[n]}
    tensors = list[Differing]()
    for name in both:
        if name not in retyped:
            tensors += _differing(name, first, second)
            told(one[name].numel * one[name].itemsize)
    there, here = ({**saved.values, "extra": dict(saved.extra)} for saved in (first, second))
    return Comparison(
        only_in_first=[name for name in one if name not in other],
        only_in_second=[name for name in other if name not in one],
        retyped=retyped,
        tensors=tensors,
        values=dict(value_differences(there, here)),
        equal=len(both) - len(retyped) - len(tensors),
    )


def value_differences(
    one: object, other: object, path: str = ""
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the places where two JSON documents differ, with both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            absent = "nothing"
            if key in one and key in other:
                yield from value_differences(one[key], other[key], f"{path}/{key}".strip("/"))
            else:
                there, here = one.get(key, absent), other.get(key, absent)
                yield f"{path}/{key}".strip("/"), (short(there), short(here))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (there, here) in enumerate(zip(one, other, strict=True)):
            yield from value_differences(there, here, f"{path}/{index}")
    elif one != other:
        yield path, (short(one), short(other))


def _differing(name: str, first: Saved, second: Saved) -> list[Differing]:
    spec, elements, largest = first.specs[name], 0, 0.0
    for box in pieces(spec.shape, spec.itemsize):
        there, here = (_read(saved, name, spec, box) for saved in (first, second))
        is_other = (_bytes(there) != _bytes(here)).any(dim=1)
        if not is_other.any():
            continue
        elements += int(is_other.sum())
        gaps = _wide(there.reshape(-1)[is_other]) - _wide(here.reshape(-1)[is_other])
        gap = gaps.abs().max().item()
        largest = gap if math.isnan(gap) else max(largest, gap)
    return [Differing(name, elements, largest)] if elements else []


def _read(saved: Saved, name: str, spec: Spec, box: Box) -> Tensor:
    target = torch.empty(box.shape, dtype=DTYPES[spec.dtype])
    saved.fill(name, box, target)
    return target


def _bytes(tensor: Tensor) -> Tensor:
    """Return one row for each element."""
    return tensor.reshape(-1, 1).view(torch.uint8)


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _largest_first(one: Differing) -> tuple[bool, float]:
    gap = one.max_abs_difference
    return (not math.isnan(gap), -gap)
