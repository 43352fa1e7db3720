"""A part that is wanted is put together from the parts that were saved, whatever their meshes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from spotrun_trainer.checkpoint.format.reading.read_plan import Held, Read, Source, plan_reads
from spotrun_trainer.checkpoint.format.shard_plan import plan
from spotrun_trainer.parallel.division import Box, Stretch, stretches
from spotrun_trainer.state.flatten import Spec

HEADER_BYTES = 16
ITEMSIZE = 8  # of whole numbers, which tell where they come from


@dataclass(frozen=True)
class Mesh:
    """Sizes of a mesh's dimensions, the dimension of a tensor that each divides, and copies."""

    sizes: tuple[int, ...]
    dims: tuple[int | None, ...]
    copies: int


def meshes(num_dims: int) -> st.SearchStrategy[Mesh]:
    dim = st.none() | st.integers(0, num_dims - 1) if num_dims else st.none()
    return st.integers(1, 2).flatmap(
        lambda count: st.builds(
            Mesh,
            st.tuples(*[st.integers(1, 4)] * count),
            st.tuples(*[dim] * count),
            st.integers(1, 3),
        )
    )


CASES = st.lists(st.integers(0, 7), max_size=3).flatmap(
    lambda shape: st.tuples(st.just(tuple(shape)), meshes(len(shape)), meshes(len(shape)))
)


def boxes(shape: tuple[int, ...], mesh: Mesh) -> list[Box]:
    """The part that each process of a copy has, cut as torch.chunk does, one after the other."""
    found = []
    for coordinate in product(*map(range, mesh.sizes)):
        offsets, sizes = [0] * len(shape), list(shape)
        for at, size, dim in zip(coordinate, mesh.sizes, mesh.dims, strict=True):
            if dim is None:
                continue
            chunk = -(-sizes[dim] // size)
            start = min(at * chunk, sizes[dim])
            offsets[dim] += start
            sizes[dim] = min(chunk, sizes[dim] - start)
        found.append(Box(tuple(offsets), tuple(sizes)))
    return found


def part_of(whole: Tensor, box: Box) -> Tensor:
    for dim, (start, size) in enumerate(zip(box.offsets, box.shape, strict=True)):
        whole = whole.narrow(dim, start, size)
    return whole.contiguous()


def written(whole: Tensor, mesh: Mesh) -> tuple[list[Held], dict[int, bytes]]:
    """What a checkpoint has of a tensor: the files by rank, and where its parts are in these."""
    every, files = [], {}
    parts = boxes(tuple(whole.shape), mesh)
    for number, box in enumerate(parts):
        part, sources = part_of(whole, box), []
        # Beside another tensor, so that slices begin anywhere.
        layout = {"other": Spec("int64", (5,)), "whole": Spec("int64", box.shape)}
        for copy, slices in enumerate(plan(layout, mesh.copies)):
            rank, content = copy * len(parts) + number, b"h" * HEADER_BYTES
            for one in slices:
                source = part if one.tensor == "whole" else torch.full((5,), -1)
                if one.tensor == "whole":
                    sources.append(Source(one.start, one.stop, rank, len(content)))
                content += source.reshape(-1)[one.start : one.stop].numpy().tobytes()
            files[rank] = content
        every.append(Held(box, sources))
    return every, files


def put_together(wanted: Box, reads: Sequence[Read], files: dict[int, bytes]) -> bytes:
    memory = bytearray(b"?" * (wanted.numel * ITEMSIZE))
    for read in reads:
        for row in range(read.rows):
            offset, target = read.offset + row * read.step, read.target + row * read.target_step
            content = files[read.rank][offset : offset + read.bytes]
            memory[target : target + read.bytes] = content
    return bytes(memory)


@given(CASES)
def test_every_mesh_reads_what_every_other_has_written(
    case: tuple[tuple[int, ...], Mesh, Mesh],
) -> None:
    shape, there, here = case
    whole = torch.arange(math.prod(shape)).reshape(shape)
    held, files = written(whole, there)
    for wanted in boxes(shape, here):
        reads = plan_reads(wanted, held, ITEMSIZE)
        assert put_together(wanted, reads, files) == part_of(whole, wanted).numpy().tobytes()
        assert (
            sum(read.bytes * read.rows for read in reads) == wanted.numel * ITEMSIZE
        )  # and no more


def test_a_part_that_is_one_range_is_read_at_once() -> None:
    held = Held(Box((0, 0), (8, 4)), [Source(0, 16, 0, 100), Source(16, 32, 1, 50)])
    reads = plan_reads(Box((2, 0), (4, 4)), [held], 4)
    assert reads == [Read(0, 100 + 32, 32, 0), Read(1, 50, 32, 32)]


def test_neighbouring_parts_in_one_file_are_read_at_once() -> None:
    held = [
        Held(Box((0,), (4,)), [Source(0, 4, 0, 8)]),
        Held(Box((4,), (4,)), [Source(0, 4, 0, 24)]),
    ]
    assert plan_reads(Box((2,), (4,)), held, 4) == [Read(0, 16, 16, 0)]


def test_rows_of_another_width_are_one_read() -> None:
    """A matrix may have millions of rows."""
    rows = 10**6
    held = Held(Box((0, 0), (rows, 4)), [Source(0, 4 * rows, 0, 100)])
    assert plan_reads(Box((0, 2), (rows, 2)), [held], 4) == [Read(0, 108, 8, 0, rows, 16, 8)]


def test_rows_of_several_dimensions_are_one_read() -> None:
    assert list(stretches(Box((0, 0, 2), (5, 3, 2)), Box((0, 0, 0), (5, 3, 4)))) == [
        Stretch(0, 2, 2, 15, 2, 4)
    ]
    assert list(stretches(Box((0, 1, 2), (2, 2, 2)), Box((0, 0, 0), (2, 3, 4)))) == [
        Stretch(0, 6, 2, 2, 2, 4),
        Stretch(4, 18, 2, 2, 2, 4),
    ]


def test_what_is_nowhere_is_said() -> None:
    held = [Held(Box((0,), (3,)), [Source(0, 3, 0, 0)])]
    with pytest.raises(ValueError, match="2 of 4 elements were found"):
        plan_reads(Box((1,), (4,)), held, 4)
