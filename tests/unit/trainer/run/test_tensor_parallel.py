"""Layers divided among processes that compute on the same samples, alone and beside shards."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from spotrun_trainer import Parallel, Run
from spotrun_trainer.elastic.membership import Membership
from spotrun_trainer.elastic.pending_collectives import Pending
from spotrun_trainer.elastic.process_group import Group
from tests.support.processes.trainer_world import Ended, run_alone, run_world
from tests.unit.trainer.run.elastic import Jobs
from tests.unit.trainer.run.fully_sharded import (
    Blocks,
    FullySharded,
    Shown,
    divide_layers,
    train_and_show,
    whole_state,
)
from tests.unit.trainer.run.scripts import CLASSES, FEATURES, dataset
from tests.unit.trainer.run.sharded import (
    FOUR,
    Both,
    assert_losses_among,
    complete_the_copy,
    leave_to_the_other_copy,
)
from tests.unit.trainer.run.test_worlds import DieInCollective, DieInForward, Hold

PLAN = FullySharded(shard=1, tensor=2, global_batch=24)


@cache
def alone(plan: FullySharded) -> Shown:
    """What one process comes to that holds the whole model."""
    shown: Shown = run_alone(train_and_show, replace(plan, shard=1, tensor=1)).value
    return shown


def assert_like_alone(plan: FullySharded, ended: Sequence[Ended]) -> None:
    """Each copy has the losses and the state of a process alone, within rounding."""
    assert [one.error for one in ended] == [""] * len(ended), "\n".join(one.said for one in ended)
    trained: list[Shown] = [one.value for one in ended]
    expected = alone(replace(plan, nuisance=None))
    whole = whole_state([expected])
    for first in range(0, len(trained), plan.processes):
        state = whole_state(trained[first : first + plan.processes])
        assert set(state) == set(whole)
        for path, tensor in whole.items():
            torch.testing.assert_close(state[path], tensor, atol=1e-4, rtol=1e-3, msg=path)
    for one in trained:
        assert_losses_among(one.losses, expected.losses)


@pytest.mark.parametrize(
    ("shard", "tensor", "processes", "clip"),
    [(1, 2, 2, 0.5), (1, 2, 4, None), (2, 2, 4, 0.5), (2, 2, 4, None)],
)
def test_every_mesh_learns_what_one_process_does(
    shard: int, tensor: int, processes: int, clip: float | None
) -> None:
    plan = replace(PLAN, shard=shard, tensor=tensor, clip=clip, evaluates=True)
    assert_like_alone(plan, run_world(processes, train_and_show, plan))


@pytest.mark.parametrize(
    "death",
    [
        DieInForward("b1"),
        DieInCollective("a1", 2, takes_part=False, count=0),
        DieInCollective("b0", 5, takes_part=True, count=0),
        DieInCollective("b1", 2, takes_part=False),
    ],
    ids=str,
)
def test_the_other_copy_goes_on_as_if_nobody_had_died(
    jobs: Jobs, death: DieInForward | DieInCollective
) -> None:
    plan = replace(PLAN, nuisance=death)
    job = jobs.start(train_and_show, plan, workers=FOUR)
    others, mate = leave_to_the_other_copy(job, death.worker)
    assert_like_alone(plan, job.ended(*others))
    assert job.is_alive(mate)


def test_a_broken_copy_is_completed_by_a_joining_worker(jobs: Jobs, tmp_path: Path) -> None:
    plan = replace(PLAN, nuisance=Both(DieInForward("b1"), Hold(tmp_path, at=5)))
    job = jobs.start(train_and_show, plan, workers=FOUR)
    assert_like_alone(plan, job.ended(*complete_the_copy(job, "b1", tmp_path)))


class Normed(nn.Module):
    """A model with a layer that each process computes for some of the samples."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Linear(FEATURES, 8)
        self.norm = nn.LayerNorm(8)
        self.last = nn.Linear(8, CLASSES)

    @override
    def forward(self, features: Tensor) -> Tensor:
        result: Tensor = self.last(self.norm(self.first(features)))
        return result


def train_normed(clip: float | None) -> list[str]:
    """Train a step; return what was added up: before the commit, and after it."""
    # Not for all processes of these tests: it takes them a second.
    from torch.distributed.tensor import Replicate, Shard  # noqa: PLC0415
    from torch.distributed.tensor.parallel import (  # noqa: PLC0415
        ColwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    run = Run(1, parallel=Parallel(tensor=2))
    layers = {
        "first": ColwiseParallel(output_layouts=Shard(0)),
        "norm": SequenceParallel(sequence_dim=0, use_local_output=True),
        "last": ColwiseParallel(input_layouts=Shard(0), output_layouts=Replicate()),
    }
    model = parallelize_module(Normed(), run.mesh["tensor"], layers, src_data_rank=None)
    model = run.prepare(model, shard=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run.track(model=model, optimizer=optimizer)
    seen = _noted()
    for step in run.steps(dataset(), global_batch=8, microbatch=2, total=1, num_workers=0):
        with step:
            for features, classes in step:
                loss = functional.cross_entropy(model(features), classes, reduction="sum")
                step.backward(loss, weight=len(classes))
            seen.clear()
            step.update(optimizer, clip=clip)
            return list(seen)
    raise AssertionError


def _noted() -> list[str]:
    """Have collectives and commits noted from now on."""
    begin, commit, seen = Group._begin, Membership.commit, list[str]()

    def beginning(group: Group, collective: Any, tensor: Tensor) -> Pending:
        seen.append("collective")
        return begin(group, collective, tensor)

    def committing(worlds: Membership, numbers: Tensor) -> None:
        commit(worlds, numbers)
        seen.append("commit")

    Group._begin = beginning  # type: ignore[method-assign,assignment]
    Membership.commit = committing  # type: ignore[method-assign,assignment]
    return seen


@pytest.mark.parametrize("clip", [None, 0.5])
def test_nothing_is_added_up_after_the_commit(clip: float | None) -> None:
    """A process that dies then would leave its mates without a step that others have applied."""
    for one in run_world(2, train_normed, clip):
        assert not one.error, one.said
        assert one.value[-1] == "commit"
        assert "collective" in one.value


def test_layers_divided_but_not_sharded_are_refused() -> None:
    refused = run_world(4, tensor_without_shard)[0].error
    assert "parameters that torch has not divided" in refused
    with pytest.raises(ValueError, match="at least one process"):
        Parallel(tensor=0)


def tensor_without_shard() -> None:
    run = Run(parallel=Parallel(shard=2, tensor=2))
    model = Blocks()
    divide_layers(model, run)
    optimizer = torch.optim.AdamW(model.parameters())
    run.track(model=run.prepare(model), optimizer=optimizer)
    next(run.steps(dataset(), global_batch=8, microbatch=2, total=1, num_workers=0))
