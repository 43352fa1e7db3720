"""A model's layers are dealt to stages of a pipeline: losses, lost stages, and checkpoints."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from spotrun_trainer import Parallel
from tests.support.processes.trainer_world import Ended, run_alone, run_world
from tests.unit.trainer.run.elastic import Jobs
from tests.unit.trainer.run.pipelined import Pipelined, train_pipelined
from tests.unit.trainer.run.scripts import Trained
from tests.unit.trainer.run.sharded import (
    FOUR,
    Both,
    assert_losses_among,
    complete_the_copy,
    leave_to_the_other_copy,
)
from tests.unit.trainer.run.test_worlds import DieInCollective, DieInForward, Hold

PLAN = Pipelined()


@cache
def alone(plan: Pipelined) -> Trained:
    """What one process comes to that has all layers."""
    ended = run_alone(train_pipelined, replace(plan, stages=1))
    assert not ended.error, ended.said
    trained: Trained = ended.value
    return trained


def assert_like_alone(plan: Pipelined, ended: Sequence[Ended]) -> None:
    """Each copy has the losses and the weights of a process alone, within rounding."""
    assert [one.error for one in ended] == [""] * len(ended), "\n".join(one.said for one in ended)
    trained: list[Trained] = [one.value for one in ended]
    expected = alone(replace(plan, nuisance=None, checkpoint=None))
    for first in range(0, len(trained), plan.stages):
        stages = trained[first : first + plan.stages]
        weights = {name: one for stage in stages for name, one in stage.weights.items()}
        assert set(weights) == set(expected.weights)
        for name, weight in expected.weights.items():
            torch.testing.assert_close(weights[name], weight, atol=1e-4, rtol=1e-3)
    for one in trained:
        assert_losses_among(one.losses, expected.losses)


@pytest.mark.parametrize(
    ("stages", "processes", "schedule", "clip"),
    [
        (2, 2, "Schedule1F1B", 0.5),
        (2, 2, "ScheduleGPipe", None),
        (2, 4, "Schedule1F1B", 0.5),
        (3, 3, "Schedule1F1B", 0.5),
    ],
)
def test_every_pipeline_learns_what_one_process_does(
    stages: int, processes: int, schedule: str, clip: float | None
) -> None:
    plan = replace(PLAN, stages=stages, schedule=schedule, clip=clip)
    assert_like_alone(plan, run_world(processes, train_pipelined, plan))


def test_a_stage_waits_for_another_as_long_as_that_computes() -> None:
    # Of gloo a message that is waited for in slices ends with all connections of its group.
    plan = replace(PLAN, total=1, global_batch=4, forward_seconds=0.3)
    assert_like_alone(plan, run_world(2, train_pipelined, plan))


@pytest.mark.parametrize(
    "death",
    [
        DieInForward("b1"),
        DieInForward("a0"),
        *(DieInCollective("a1", number, takes_part=False, count=0) for number in (1, 2, 4)),
        DieInCollective("b0", 3, takes_part=True, count=0),
        *(DieInCollective("b1", number, takes_part=False) for number in (1, 3)),
    ],
    ids=str,
)
def test_the_other_copy_goes_on_as_if_nobody_had_died(
    jobs: Jobs, death: DieInForward | DieInCollective
) -> None:
    plan = replace(PLAN, nuisance=death)
    job = jobs.start(train_pipelined, plan, workers=FOUR)
    others, mate = leave_to_the_other_copy(job, death.worker)
    assert_like_alone(plan, job.ended(*others))
    assert job.is_alive(mate)


@pytest.mark.parametrize("lost", ["b0", "b1"])
def test_a_lost_stage_is_taken_from_the_other_copy(jobs: Jobs, tmp_path: Path, lost: str) -> None:
    # It computes from the second step on after it has joined, with its mate's part of a schedule.
    plan = replace(PLAN, total=9, nuisance=Both(DieInForward(lost), Hold(tmp_path, at=5)))
    job = jobs.start(train_pipelined, plan, workers=FOUR)
    assert_like_alone(plan, job.ended(*complete_the_copy(job, lost, tmp_path)))


def test_a_checkpoint_starts_any_number_of_copies_of_as_many_stages(tmp_path: Path) -> None:
    plan = replace(PLAN, total=4, checkpoint=str(tmp_path), every="2 steps")
    assert_like_alone(plan, run_world(4, train_pipelined, plan))
    more = replace(plan, total=6)
    assert_like_alone(more, run_world(2, train_pipelined, more))
    refused = run_alone(train_pipelined, replace(more, stages=1)).error
    assert "there 2 processes hold a copy of the model together, here 1" in refused


def test_stages_are_not_divided_further() -> None:
    with pytest.raises(ValueError, match="give pipeline= alone"):
        Parallel(pipeline=2, shard=2)
