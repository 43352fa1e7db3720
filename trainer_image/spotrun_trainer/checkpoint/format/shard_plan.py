"""The slices that each rank writes: a pure function of the tensors and the number of ranks.

All ranks hold the same state, so any division works that is the same on all ranks. Tensors are
placed end to end, larger elements first (so each is aligned, in files and in memory), and cut into
parts of equal bytes; a cut inside a small tensor moves to its edge.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from spotrun_trainer.state.flatten import Spec

UNCUT_BYTES = 64 << 10
"""Tensors up to this size stay whole: each slice costs a header line and a copy."""


@dataclass(frozen=True)
class Slice:
    """Elements [start, stop) of a tensor read in row-major order."""

    tensor: str
    start: int
    stop: int

    @property
    def numel(self) -> int:
        """The number of elements."""
        return self.stop - self.start


def plan(layout: Mapping[str, Spec], size: int) -> tuple[tuple[Slice, ...], ...]:
    """Return the slices that each of `size` ranks writes; together they have each element once."""
    names = sorted(layout, key=lambda name: (-layout[name].itemsize, name))
    total = sum(layout[name].itemsize * layout[name].numel for name in names)
    parts: list[list[Slice]] = [[] for _ in range(size)]
    rank = offset = 0
    for name in names:
        spec, start = layout[name], 0
        end = offset + spec.itemsize * spec.numel
        while rank < size - 1 and (cut := total * (rank + 1) // size) <= end:
            stop = _elements_before(spec, cut - offset)
            if stop > start:
                parts[rank].append(Slice(name, start, stop))
                start = stop
            rank += 1
        if start < spec.numel or not spec.numel:
            parts[rank].append(Slice(name, start, spec.numel))
        offset = end
    return tuple(map(tuple, parts))


def _elements_before(spec: Spec, cut: int) -> int:
    size = spec.itemsize * spec.numel
    if size <= UNCUT_BYTES:
        return spec.numel if 2 * cut >= size else 0
    return cut // spec.itemsize
