"""The division of a tensor among processes: which part of the whole one of them holds.

Pure values: torch's own (DTensor) are created and read in `parallel/local.py`. In a flat state a
part is marked as `{"$part": [{"$tensor": path}, shape, by, offsets]}`: the shape of the whole, what
each dimension of the mesh divides, and where in the whole this part begins.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

_MOST_DEPTH = 300
_MOST_ELEMENTS = 2**60


@dataclass(frozen=True)
class Box:
    """A part of a tensor: a run of indices in each dimension."""

    offsets: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def whole(cls, shape: tuple[int, ...]) -> "Box":
        """Return the box that has all of a tensor."""
        return cls((0,) * len(shape), shape)

    @property
    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def common(self, other: "Box") -> "Box":
        """Return what two parts of a tensor have in common."""
        offsets = tuple(map(max, self.offsets, other.offsets))
        ends = map(min, _ends(self), _ends(other))
        return Box(
            offsets, tuple(max(0, end - start) for start, end in zip(offsets, ends, strict=True))
        )

    def is_within(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor of such a shape has such a part."""
        return len(self.offsets) == len(self.shape) == len(shape) and all(
            offset + size <= most
            for offset, size, most in zip(self.offsets, self.shape, shape, strict=True)
        )

    def chunk(self, dim: int, part: int, parts: int) -> "Box":
        """Return what process `part` of `parts` holds of it, as torch.chunk cuts a dimension."""
        offsets, shape = [*self.offsets], [*self.shape]
        size = -(-shape[dim] // parts)
        start = min(part * size, shape[dim])
        offsets[dim] += start
        shape[dim] = min(size, shape[dim] - start)
        return Box(tuple(offsets), tuple(shape))


def are_tiles(boxes: Sequence[Box], whole: Box) -> bool:
    """Whether boxes cover another one, each element once, as the cells of a grid."""
    found = [box for box in boxes if box.numel]
    if not whole.numel:
        return not found
    num_cells = 1
    for dim, (start, size) in enumerate(zip(whole.offsets, whole.shape, strict=True)):
        runs = sorted({(box.offsets[dim], box.shape[dim]) for box in found})
        ends = [start, *(offset + length for offset, length in runs)]
        if [offset for offset, _ in runs] != ends[:-1] or ends[-1] != start + size:
            return False
        num_cells *= len(runs)
    return len(found) == len(set(found)) == num_cells


@dataclass(frozen=True)
class Cut:
    """One dimension of a mesh: what of a tensor it divides, and which part is this process's."""

    by: int | list[int] | None  # the tensor's dimension, with a split factor; None: nothing
    part: int
    parts: int

    @property
    def dim(self) -> int | None:
        """The dimension of the tensor that it divides."""
        return self.by[0] if isinstance(self.by, list) else self.by


def box_of(shape: tuple[int, ...], cuts: Sequence[Cut]) -> Box:
    """Return the part of a tensor that these cuts leave, as FSDP2 and tensor parallelism cut it.

    Cuts with a split factor come last, the innermost first: they divide what other cuts have left,
    whose number of parts is the factor. Raises ValueError for another factor.
    """
    box = Box.whole(shape)
    for cut in cuts:
        if isinstance(cut.by, int):
            box = box.chunk(cut.by, cut.part, cut.parts)
    for index, cut in reversed(list(enumerate(cuts))):
        if isinstance(cut.by, list):
            before = math.prod(one.parts for one in cuts[index + 1 :] if one.dim == cut.dim)
            if cut.by[1] != before:
                raise ValueError(
                    f"a tensor of {[*shape]} is cut after {cut.by[1]} other parts, but its mesh "
                    f"makes {before}: divide it with FSDP2 and tensor parallelism"
                )
            box = box.chunk(cut.by[0], cut.part, cut.parts)
    return box


@dataclass(frozen=True)
class Stretch:
    """Rows of consecutive elements that two parts have in common, counted in row-major order."""

    start: int  # of the first row, in the part that is wanted
    source: int  # in the one that is there
    count: int  # elements of a row
    rows: int = 1
    step: int = 0  # from a row to the next, in the part that is wanted
    source_step: int = 0


def stretches(wanted: Box, held: Box) -> Iterator[Stretch]:
    """Yield the elements that two parts of a tensor have in common, in as few rows as possible."""
    both = wanted.common(held)
    if not both.numel:
        return
    common = both.shape
    # The dimensions from here on are consecutive in both.
    inner = len(common)
    while inner > 0:
        inner -= 1
        if not wanted.shape[inner] == held.shape[inner] == common[inner]:
            break
    start, source = _place(wanted, both.offsets), _place(held, both.offsets)
    steps, source_steps = _strides(wanted.shape), _strides(held.shape)
    # Rows at equal distances, such as a column of a matrix, are one stretch.
    outer, rows, step, source_step = inner, 1, 0, 0
    if outer:
        outer -= 1
        rows, step, source_step = common[outer], steps[outer], source_steps[outer]
    while outer and (steps[outer - 1], source_steps[outer - 1]) == (
        rows * step,
        rows * source_step,
    ):
        outer -= 1
        rows *= common[outer]
    for index in product(*(range(size) for size in common[:outer])):
        yield Stretch(
            start + sum(map(int.__mul__, index, steps)),
            source + sum(map(int.__mul__, index, source_steps)),
            math.prod(common[inner:]),
            *((rows, step, source_step) if rows > 1 else ()),
        )


@dataclass(frozen=True)
class Division:
    """One process's part of a tensor, and torch's way to divide it."""

    shape: tuple[int, ...]  # of the whole
    by: Any  # for each dimension of the mesh: the tensor's, with a split factor, or None
    box: Box

    def mark(self, path: str) -> dict[str, Any]:
        """Return the mark that replaces the tensor in a flat state."""
        offsets = [*self.box.offsets]
        return {"$part": [{"$tensor": path}, [*self.shape], self.by, offsets]}


def divisions_in(
    values: object,
    shape_of: Callable[[str], tuple[int, ...]],
    part: int = 0,
    parts: int = 1,
) -> dict[str, Division]:
    """Return the parts that a flat state marks, by path; `shape_of` are the shapes of the parts.

    Raises ValueError for an invalid mark. Marks without offsets are from before meshes had
    several dimensions: part `part` of `parts`.
    """
    found = {}
    for content in _marked(values, 0):
        match content:
            case [{"$tensor": str()}, list(shape), *_] if not all(map(_is_size, shape)):
                raise ValueError(f"its values have a $part of no shape: {str(content)[:80]}")
            case [{"$tensor": str(path)}, list(shape), by, list(offsets)]:
                box = Box(tuple(offsets), shape_of(path))
            case [{"$tensor": str(path)}, list(shape), [dim]]:
                box = Box(_chunk_offsets(shape, dim, part, parts), shape_of(path))
                by = {"shard": dim}
            case _:
                raise ValueError(f"its values have a $part that is none: {str(content)[:80]}")
        if not all(map(_is_size, box.offsets)):
            raise ValueError(f"its values have a $part of no place: {str(content)[:80]}")
        if not box.is_within(tuple(shape)):
            raise ValueError(f"the part of {path[:80]!r} is outside of the whole")
        found[path] = Division(tuple(shape), by, box)
    return found


def marked_anew(values: Any, here: Mapping[str, Division], depth: int = 0) -> Any:  # noqa: ANN401 - JSON
    """Return a flat state's values with the marks of another division."""
    if depth > _MOST_DEPTH:
        raise ValueError("its values are nested too deeply")
    if isinstance(values, list):
        return [marked_anew(one, here, depth + 1) for one in values]
    if not isinstance(values, dict):
        return values
    match values:
        case {"$part": [{"$tensor": str(path)}, *_]} | {"$tensor": str(path)} if len(values) == 1:
            return here[path].mark(path) if path in here else {"$tensor": path}
    return {key: marked_anew(one, here, depth + 1) for key, one in values.items()}


def _marked(values: object, depth: int) -> Iterator[object]:
    if depth > _MOST_DEPTH:
        raise ValueError("its values are nested too deeply")
    if isinstance(values, list):
        for one in values:
            yield from _marked(one, depth + 1)
    elif isinstance(values, dict):
        if len(values) == 1 and "$part" in values:
            yield values["$part"]
            return
        for one in values.values():
            yield from _marked(one, depth + 1)


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST_ELEMENTS


def _chunk_offsets(shape: list[int], dim: object, part: int, parts: int) -> tuple[int, ...]:
    """Return where a part begins, as torch.chunk cuts."""
    whole = Box.whole(tuple(shape))
    if isinstance(dim, int) and 0 <= dim < len(shape):
        return whole.chunk(dim, part, parts).offsets
    return whole.offsets


def _ends(box: Box) -> Iterator[int]:
    return map(int.__add__, box.offsets, box.shape)


def _place(box: Box, at: tuple[int, ...]) -> int:
    inside = map(int.__sub__, at, box.offsets)
    return sum(map(int.__mul__, inside, _strides(box.shape)))


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))
