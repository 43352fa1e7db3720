"""Layers divided among processes that compute on the same samples, alone and beside shards."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from spotrun.wire import How
from spotrun_trainer import Parallel, Run
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
from tests.unit.trainer.run.scripts import dataset
from tests.unit.trainer.run.sharded import Both, leave_to_the_other_copy
from tests.unit.trainer.run.test_worlds import DieInCollective, DieInForward, Hold

PLAN = FullySharded(shard=1, tensor=2, global_batch=24)
FOUR = ("a0", "a1", "b0", "b1")  # two copies of the model in two parts each


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
    for one in trained:  # each loss is one of a step that it was there for
        assert one.losses
        assert all(min(abs(loss - each) for each in expected.losses) < 1e-5 for loss in one.losses)


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
        DieInCollective("b1", 3, takes_part=False),
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


def test_a_broken_copy_is_completed_by_a_newcomer(jobs: Jobs, tmp_path: Path) -> None:
    plan = replace(PLAN, nuisance=Both(DieInForward("b1"), Hold(tmp_path, at=5)))
    job = jobs.start(train_and_show, plan, workers=FOUR)
    job.until_dead("b1")
    job.publish(How.ABORT, "a0", "a1")
    job.until((tmp_path / "held").exists)
    again = ("a0", "a1", "b0", "n1")
    job.bring_in(How.BOUNDARY, *again)
    (tmp_path / "go").touch()
    assert_like_alone(plan, job.ended(*again))


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
