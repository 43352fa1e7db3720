"""The marks of divided tensors say which rows a process holds, where rows do not divide evenly too.

Each rank is a process of its own, for torch keeps the mesh of the first rank that a process was.
"""

import multiprocessing
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from spotrun_trainer.parallel.division import Box, Cut, box_of
from spotrun_trainer.parallel.local import division_of, local
from tests.support.processes.trainer_world import run_alone

MESHES = [(2, 2), (3, 2), (4, 2), (8, 2), (2, 3), (5, 3), (1, 4), (4, 4)]
ROWS = [1, 2, 5, 7, 8, 9, 13, 33]
MOST = max(shard * tensor for shard, tensor in MESHES)
AT_A_TIME = 3
COLUMNS = 2


@dataclass(frozen=True)
class Marked:
    """A tensor as a rank has it."""

    mesh: tuple[int, int]
    path: str
    whole: tuple[int, ...]
    box: Box
    is_held: bool  # the elements in memory are those that the box says


def each_rank_marks() -> list[Marked]:
    """What all ranks mark, in all meshes."""
    import torch.distributed.fsdp  # noqa: PLC0415 - for all that are forked
    import torch.distributed.tensor.parallel  # noqa: PLC0415, F401

    with multiprocessing.get_context("fork").Pool(AT_A_TIME, maxtasksperchild=1) as pool:
        ranks = pool.map(marks_of, range(MOST), chunksize=1)
    return [one for marks in ranks for one in marks]


def marks_of(rank: int) -> list[Marked]:
    marks = []
    for shard, tensor in MESHES:
        if rank < shard * tensor:
            with mesh_of(rank, shard, tensor) as mesh:
                for path, parameter in divided_layers(mesh).named_parameters():
                    marks.append(marked((shard, tensor), path, parameter))
    return marks


def marked(mesh: tuple[int, int], path: str, parameter: Tensor) -> Marked:
    division = division_of(parameter)
    held = local(parameter)
    is_held = torch.equal(held, inside(numbered(tuple(parameter.shape)), division.box))
    return Marked(mesh, path, tuple(parameter.shape), division.box, is_held)


@contextmanager
def mesh_of(rank: int, shard: int, tensor: int) -> Iterator[Any]:
    """The mesh as one of its processes has it; the others are not there."""
    import torch.distributed as dist  # noqa: PLC0415
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415
    from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: PLC0415

    store = FakeStore()
    dist.init_process_group("fake", store=store, rank=rank, world_size=shard * tensor)
    try:
        yield init_device_mesh("cpu", (shard, tensor), mesh_dim_names=("shard", "tensor"))
    finally:
        dist.destroy_process_group()


def divided_layers(mesh: Any) -> nn.Module:
    """Layers whose rows both cut, and layers of which one cuts rows and the other columns."""
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415
    from torch.distributed.tensor.parallel import (  # noqa: PLC0415
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    model = nn.ModuleDict()
    for rows in ROWS:
        model[f"rows{rows}"] = nn.Linear(COLUMNS, rows)
        model[f"columns{rows}"] = nn.Linear(rows, COLUMNS)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(numbered(tuple(parameter.shape)))
    plan = {f"rows{rows}": ColwiseParallel() for rows in ROWS}
    rest = {f"columns{rows}": RowwiseParallel() for rows in ROWS}
    parallelize_module(model, mesh["tensor"], {**plan, **rest}, src_data_rank=None)
    fully_shard([*model.values()], mesh=mesh["shard"])
    return model


def numbered(shape: tuple[int, ...]) -> Tensor:
    """A tensor whose elements all differ."""
    return torch.arange(float(torch.Size(shape).numel())).view(shape)


def inside(whole: Tensor, box: Box) -> Tensor:
    for dim, (start, size) in enumerate(zip(box.offsets, box.shape, strict=True)):
        whole = whole.narrow(dim, start, size)
    return whole


def test_the_marks_of_all_ranks_are_what_they_hold_and_together_the_whole() -> None:
    ended = run_alone(each_rank_marks)
    assert ended.error == "", ended.said
    assert [one for one in ended.value if not one.is_held] == []
    boxes = defaultdict[tuple[tuple[int, int], str, tuple[int, ...]], list[Box]](list)
    for one in ended.value:
        boxes[one.mesh, one.path, one.whole].append(one.box)
    assert len(boxes) == len(MESHES) * len(ROWS) * 4  # with biases
    for (mesh, path, whole), parts in boxes.items():
        times = torch.zeros(whole)
        for box in parts:
            inside(times, box).add_(1)
        assert len(parts) == mesh[0] * mesh[1]
        # Of a layer that is cut by columns all ranks of "tensor" have the same bias.
        is_shared = path.startswith("columns") and path.endswith("bias")
        assert bool((times == (mesh[1] if is_shared else 1)).all()), (mesh, path)


def test_a_cut_with_a_factor_divides_what_others_have_left() -> None:
    """Of 7 rows "tensor" has 4 and 3; the first of 3 in "shard" has 2 of 4, or 1 of 3."""
    first = [box_of((7,), [Cut([0, 2], 0, 3), Cut(0, part, 2)]) for part in (0, 1)]
    assert first == [Box((0,), (2,)), Box((4,), (1,))]


def test_of_several_cuts_with_a_factor_the_innermost_is_first() -> None:
    cuts = [Cut([0, 4], 1, 2), Cut([0, 2], 1, 2), Cut(0, 1, 2)]
    assert box_of((20,), cuts) == Box((18,), (2,))  # of 10..20, of 15..20, of 18..20


def test_another_factor_than_the_mesh_has_is_refused() -> None:
    with pytest.raises(ValueError, match="cut after 3 other parts, but its mesh makes 2"):
        box_of((7,), [Cut([0, 3], 0, 3), Cut(0, 0, 2)])


def refused_in_a_mesh() -> str:
    from torch.distributed.tensor import DTensor, Shard  # noqa: PLC0415

    with mesh_of(0, 3, 2) as mesh:
        by, shape = [Shard(0), Shard(1)], torch.Size((7, 4))
        part = torch.zeros(3, 4)
        tensor = DTensor.from_local(part, mesh, by, run_check=False, shape=shape, stride=(4, 1))
        try:
            division_of(tensor)
        except ValueError as error:
            return str(error)
    return ""


def test_a_tensor_that_is_held_otherwise_is_refused() -> None:
    refused = run_alone(refused_in_a_mesh).value
    words = (
        "has the part [3, 4] in this process, but FSDP2 and tensor parallelism would leave [3, 2]"
    )
    assert words in refused
