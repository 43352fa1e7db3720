"""torch's collectives and layouts in a step, in a copy and in each dimension of its mesh."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn

from spotrun_trainer import Parallel, Run
from tests.support.processes.trainer_world import run_world
from tests.unit.trainer.run.scripts import FEATURES, dataset

Check = Callable[[Any, Any, int], None]  # of a group, its mesh, and the number in it


def rows(number: int) -> Tensor:
    return torch.arange(4.0).reshape(2, 2) + 10 * number


def summed() -> Tensor:
    return rows(0) + rows(1)


def all_to_all_single(group: Any, _mesh: Any, number: int) -> None:
    got = torch.empty(2, 2)
    distributed.all_to_all_single(got, rows(number), group=group)
    assert torch.equal(got, torch.stack([rows(0)[number], rows(1)[number]]))


def all_to_all(group: Any, _mesh: Any, number: int) -> None:
    got = [torch.empty(2), torch.empty(2)]
    distributed.all_to_all(got, list(rows(number).unbind()), group=group)
    assert torch.equal(torch.stack(got), torch.stack([rows(0)[number], rows(1)[number]]))


def gather(group: Any, _mesh: Any, number: int) -> None:
    got = [torch.empty(2, 2), torch.empty(2, 2)] if number == 1 else None
    distributed.gather(rows(number), got, group=group, group_dst=1)
    assert got is None or torch.equal(torch.stack(got), torch.stack([rows(0), rows(1)]))


def scatter(group: Any, _mesh: Any, number: int) -> None:
    got = torch.empty(2)
    given = list(rows(7).unbind()) if number == 1 else None
    distributed.scatter(got, given, group=group, group_src=1)
    assert torch.equal(got, rows(7)[number])


def reduce(group: Any, _mesh: Any, number: int) -> None:
    value = rows(number)
    distributed.reduce(value, group=group, group_dst=1)
    assert number == 0 or torch.equal(value, summed())


def reduce_scatter(group: Any, _mesh: Any, number: int) -> None:
    got = torch.empty(2)
    distributed.reduce_scatter(got, list(rows(number).unbind()), group=group)
    assert torch.equal(got, summed()[number])


def all_gather_object(group: Any, _mesh: Any, number: int) -> None:
    got: list[Any] = [None, None]
    distributed.all_gather_object(got, {"number": number}, group=group)
    assert got == [{"number": 0}, {"number": 1}]


def barrier(group: Any, _mesh: Any, _number: int) -> None:
    distributed.barrier(group=group)


def coalesced(group: Any, _mesh: Any, number: int) -> None:
    from torch.distributed import _functional_collectives as functional  # noqa: PLC0415

    sums = functional.all_reduce_coalesced([rows(number), rows(number) + 1], "sum", group)
    parts = functional.reduce_scatter_tensor_coalesced([rows(number)], "sum", [0], group)
    wholes = functional.all_gather_into_tensor_coalesced([rows(number)[:1]], group)
    assert torch.equal(sums[1], summed() + 2)
    assert torch.equal(parts[0][0], summed()[number])
    assert torch.equal(wholes[0], torch.stack([rows(0)[0], rows(1)[0]]))


def layouts(_group: Any, mesh: Any, number: int) -> None:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor  # noqa: PLC0415

    whole = torch.arange(16.0).reshape(4, 4)
    by_rows = distribute_tensor(whole, mesh, [Shard(0)])
    by_columns: Any = by_rows.redistribute(mesh, [Shard(1)])
    assert torch.equal(by_columns.to_local(), whole.chunk(2, 1)[number])
    assert torch.equal(by_columns.full_tensor(), whole)
    assert torch.equal(by_rows.redistribute(mesh, [Replicate()]).to_local(), whole)
    summands = by_columns @ by_rows  # each process has one
    assert torch.equal(summands.redistribute(mesh, [Shard(1)]).full_tensor(), whole @ whole)


CHECKS = [
    all_to_all_single,
    all_to_all,
    gather,
    scatter,
    reduce,
    reduce_scatter,
    all_gather_object,
    barrier,
    coalesced,
    layouts,
]


def in_a_step(parallel: Parallel) -> list[str]:
    """Return the checks that failed, with their errors."""
    run = Run(1, parallel=parallel)
    model = run.prepare(nn.Sequential(nn.Linear(FEATURES, 4), nn.Linear(4, 2)), shard=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run.track(model=model, optimizer=optimizer)
    failed = []
    for step in run.steps(dataset(), global_batch=8, microbatch=2, total=1, num_workers=0):
        with step:
            for x, y in step:
                step.backward(model(x).square().sum(), weight=len(y))
            for check in CHECKS:
                for mesh in [run.mesh[name] for name in run.mesh.mesh_dim_names or ()]:
                    try:
                        check(mesh.get_group(), mesh, mesh.get_local_rank())
                    except Exception as error:
                        failed.append(f"{check.__name__}: {type(error).__name__} {error}")
            step.update(optimizer)
    return failed


@pytest.mark.parametrize(
    ("parallel", "processes"), [(Parallel(shard=2), 2), (Parallel(shard=2, tensor=2), 4)], ids=str
)
def test_what_torch_asks_of_a_group_is_there(parallel: Parallel, processes: int) -> None:
    for ended in run_world(processes, in_a_step, parallel):
        assert (ended.error, ended.value) == ("", [])
