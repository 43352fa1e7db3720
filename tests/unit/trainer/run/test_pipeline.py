"""A model's layers are dealt to stages of a pipeline: losses, lost stages, and checkpoints."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from tests.support.processes.trainer_world import Ended, run_alone, run_world
from tests.unit.trainer.run.elastic import Jobs
from tests.unit.trainer.run.fully_sharded import FullySharded, Shown, train_and_show, whole_state
from tests.unit.trainer.run.sharded import (
    EIGHT,
    FOUR,
    Both,
    assert_losses_among,
    complete_the_copy,
    leave_to_the_other_copy,
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
    expected = alone(replace(plan, nuisance=None, checkpoint=None, forward_seconds=0, is_picky=False))
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
        (replace(SHARDED, tensor=2), 1),
    ],
    ids=lambda one: f"{one.parallel}" if isinstance(one, FullySharded) else f"{one}",
)
def test_every_pipeline_learns_what_one_process_does(plan: FullySharded, copies: int) -> None:
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


def test_a_checkpoint_starts_any_number_of_copies_of_as_many_stages(tmp_path: Path) -> None:
    plan = replace(PLAN, total=4, checkpoint=str(tmp_path), every="2 steps")
    assert_like_alone(plan, run_world(4, train_and_show, plan))
    more = replace(plan, total=6)
    assert_like_alone(replace(more, total=6), run_world(2, train_and_show, more))
    refused = run_alone(train_and_show, replace(more, pipeline=1)).error
    assert "there 2 processes hold a copy of the model together, here 1" in refused
