"""A model's layers are dealt to stages of a pipeline: losses, lost stages, and checkpoints."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from spotrun.wire import How
from spotrun_trainer import Parallel, Run
from tests.support.processes.trainer_world import Ended, run_alone, run_world
from tests.unit.trainer.run.elastic import Jobs
from tests.unit.trainer.run.fully_sharded import (
    FullySharded,
    Shown,
    begun,
    schedule_of,
    train_and_show,
    whole_state,
)
from tests.unit.trainer.run.scripts import FEATURES, dataset
from tests.unit.trainer.run.sharded import (
    EIGHT,
    FOUR,
    Both,
    DieBeforeCommit,
    assert_losses_among,
    complete_the_copy,
    leave_to_the_other_copy,
    mean_loss,
)
from tests.unit.trainer.run.test_worlds import DieInCollective, DieInForward, Hold

PLAN = FullySharded(shard=1, pipeline=2, microbatch=4)
SHARDED = replace(PLAN, shard=2)


@cache
def alone(plan: FullySharded) -> Shown:
    """What one process comes to that has all layers."""
    ended = run_alone(train_and_show, replace(plan, shard=1, tensor=1, pipeline=1))
    assert not ended.error, ended.said
    shown: Shown = ended.value
    return shown


def assert_like_alone(plan: FullySharded, ended: Sequence[Ended]) -> None:
    """Each copy has the losses and the state of a process alone, within rounding."""
    assert [one.error for one in ended] == [""] * len(ended), "\n".join(one.said for one in ended)
    shown: list[Shown] = [one.value for one in ended]
    expected = alone(
        replace(plan, nuisance=None, checkpoint=None, forward_seconds=0, is_picky=False)
    )
    whole = whole_state([expected])
    for first in range(0, len(shown), plan.processes):
        state = whole_state(shown[first : first + plan.processes])
        assert set(state) == set(whole)
        for path, tensor in whole.items():
            torch.testing.assert_close(state[path], tensor, atol=1e-4, rtol=1e-3, msg=path)
    for one in shown:
        assert_losses_among(one.losses, expected.losses)


@pytest.mark.parametrize(
    ("plan", "copies"),
    [
        (PLAN, 1),
        (PLAN, 2),
        (replace(PLAN, schedule="ScheduleGPipe", clip=None), 1),
        (replace(PLAN, pipeline=3), 1),
        (SHARDED, 1),
        (replace(SHARDED, tensor=2, total=2), 1),
    ],
    ids=lambda one: f"{one.parallel}" if isinstance(one, FullySharded) else f"{one}",
)
def test_every_pipeline_learns_what_one_process_does(plan: FullySharded, copies: int) -> None:
    plan = replace(plan, evaluates=plan.processes < 8)  # of so many it takes long
    assert_like_alone(plan, run_world(copies * plan.processes, train_and_show, plan))


def test_a_stage_waits_for_another_as_long_as_that_computes() -> None:
    # Of gloo a message that is waited for in slices ends with all connections of its group.
    plan = replace(PLAN, total=1, global_batch=4, forward_seconds=0.3)
    assert_like_alone(plan, run_world(2, train_and_show, plan))


@pytest.mark.parametrize(
    "death",
    [
        DieInForward("b1"),
        DieInForward("a0"),
        *(DieInCollective("a1", number, takes_part=False, count=0) for number in (1, 2, 4)),
        DieInCollective("b0", 3, takes_part=True, count=0),
        *(DieInCollective("b1", number, takes_part=False) for number in (1, 2)),
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


@pytest.mark.parametrize("lost", ["b0", "b1"])
def test_a_lost_stage_is_taken_from_the_other_copy(jobs: Jobs, tmp_path: Path, lost: str) -> None:
    # It computes from the second step on after it has joined, with its mate's part of a schedule.
    plan = replace(PLAN, total=9, nuisance=Both(DieInForward(lost), Hold(tmp_path, at=5)))
    job = jobs.start(train_and_show, plan, workers=FOUR)
    assert_like_alone(plan, job.ended(*complete_the_copy(job, lost, tmp_path)))


@pytest.mark.parametrize("is_picky", [False, True])
def test_a_part_of_a_stage_that_is_lost_amid_a_schedule_is_taken_from_the_other_copy(
    jobs: Jobs, tmp_path: Path, *, is_picky: bool
) -> None:
    """Its mates come to the end of their schedules, or to an error, and keep what they have."""
    death = DieInCollective("b2", 7, takes_part=False, count=0)
    nuisance = Both(death, Hold(tmp_path, at=5))
    plan = replace(SHARDED, total=9, nuisance=nuisance, is_picky=is_picky)
    job = jobs.start(train_and_show, plan, workers=EIGHT)
    assert_like_alone(plan, job.ended(*complete_the_copy(job, "b2", tmp_path, EIGHT)))


def test_a_loss_in_an_evaluation_leaves_the_other_copy_whole(jobs: Jobs) -> None:
    plan = replace(PLAN, evaluates=True)
    job = jobs.start(train_and_show, plan, DieBeforeCommit("b1", 6), workers=FOUR)
    job.until_dead("b1")
    job.publish(How.ABORT, "a0", "a1")
    assert_like_alone(plan, job.ended("a0", "a1"))


def test_a_checkpoint_goes_on_in_other_stages(tmp_path: Path) -> None:
    plan = replace(PLAN, total=4, checkpoint=str(tmp_path), every="2 steps")
    assert_like_alone(plan, run_world(4, train_and_show, plan))
    more = replace(plan, total=6, pipeline=3)
    assert_like_alone(more, run_world(3, train_and_show, more))


def test_what_cannot_be_is_said() -> None:
    for why, refused in (
        ("two stages have a parameter called model/0.bias", numbered_by_stage),
        ("give it the function that makes the schedule", evaluate_a_stage),
        ("called a model in stages twice", evaluate_twice),
    ):
        ended = run_world(2, refused)
        assert why in "".join(one.error for one in ended), ended
    refusal = run_world(3, train_and_show, PLAN)[0].error
    assert "takes 2 (Parallel(shard=1, tensor=1, pipeline=2)): start a multiple of 2" in refusal


def numbered_by_stage() -> None:
    run = Run(parallel=Parallel(pipeline=2))
    model = run.prepare(nn.Sequential(nn.Linear(FEATURES, FEATURES)))
    run.track(model=model, optimizer=torch.optim.SGD(model.parameters()))
    next(run.steps(dataset(), global_batch=8, microbatch=4, total=1, num_workers=0))


def evaluate_a_stage() -> None:
    run, model, _ = begun(PLAN)
    next(run.steps(dataset(), global_batch=8, microbatch=4, total=1, num_workers=0))
    run._context.is_at_boundary = True
    run.evaluate(model, dataset(), mean_loss)


def evaluate_twice() -> None:
    run, model, _ = begun(PLAN)
    next(run.steps(dataset(), global_batch=8, microbatch=4, total=1, num_workers=0))
    run._context.is_at_boundary = True
    run.evaluate(model, dataset(), twice, pipeline=schedule_of(run, model, PLAN))


def twice(model: nn.Module, batch: list[Tensor]) -> Tensor:
    return mean_loss(model, batch) + mean_loss(model, batch)
