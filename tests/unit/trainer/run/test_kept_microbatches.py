"""Of a step in which a worker is lost, only what that worker held is computed again.

Each microbatch of the step is computed once by those that are left: so their numbers add up to
those of a step. That the sums are right shows in losses and weights, which are those of one process
alone.
"""

import os
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from spotrun.wire import How
from spotrun_trainer.elastic.pending_collectives import Pending
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.run import Run
from spotrun_trainer.step import step_context
from spotrun_trainer.step.gradients import BucketedGradients
from spotrun_trainer.step.reduce import reducer
from tests.support.processes.trainer_world import run_alone
from tests.unit.trainer.run.elastic import Job, Jobs, die, this_is
from tests.unit.trainer.run.scripts import Plan, Trained, train

PLAN = Plan(total=6, with_batch_norm=True, with_dropout=True, clip=0.5, with_adam=False)
MICROBATCHES = 8
COMMIT = 3  # the number of its sum in a step, behind those of three buckets


def train_in_buckets(plan: Plan) -> Trained:
    """Train with three buckets, of which two have room in flight."""
    vars(step_context)["BucketedGradients"] = partial(BucketedGradients, bucket_bytes=128)
    vars(reducer)["APART_BYTES"] = 200
    return train(plan)


@dataclass(frozen=True)
class Death:
    """A worker dies in a step: in its first microbatch, or at one of the step's sums."""

    worker: str
    step: int
    at_sum: int | None = None
    world: int | None = None  # it dies in this one only

    def __call__(self, run: Run) -> None:
        world = run._context.rank_info.world_number
        if not this_is(self.worker) or self.world not in {None, world}:
            return
        if self.at_sum is None:
            die()
        _die_at_sum(self.at_sum)


@dataclass(frozen=True)
class Deaths:
    """All of them; and a note of each microbatch that is computed."""

    all: tuple[Death, ...]
    notes: Path

    def __call__(self, run: Run, step: int, count: int) -> None:
        for death in self.all:
            if (death.step, 0) == (step, count):
                death(run)
        if count >= 0:
            with self.notes.open("a") as notes:
                notes.write(f"{os.environ['SPOTRUN_WORKER']} {step}\n")

    def computed(self, step: int, workers: str) -> int:
        """The number of microbatches that these have computed in a step."""
        notes = Counter(self.notes.read_text().splitlines())
        return sum(notes[f"{worker} {step}"] for worker in workers)


def _die_at_sum(number: int) -> None:
    """Die at the n-th sum from now on, once the ones before have ended."""
    begin, seen = Group.all_reduce, list[Pending]()

    def dying(group: Group, tensor: Tensor) -> Pending:
        if len(seen) == number:
            for one in seen:
                one.wait()
            die()
        seen.append(begin(group, tensor))
        return seen[-1]

    Group.all_reduce = dying  # type: ignore[method-assign,assignment]


@cache
def undisturbed() -> Trained:
    trained: Trained = run_alone(train, PLAN).value
    return trained


def assert_undisturbed(job: Job, *workers: str) -> None:
    """They have the training of one process alone, within rounding, and equal bits."""
    ended = job.ended(*workers)
    assert [one.error for one in ended] == [""] * len(ended), ended[0].said
    expected = undisturbed()
    for one in ended:
        trained: Trained = one.value
        assert trained.losses == pytest.approx(expected.losses[-len(trained.losses) :], rel=1e-4)
        torch.testing.assert_close(trained.weights, expected.weights, rtol=1e-3, atol=1e-4)
    assert len({one.value.digest for one in ended}) == 1


def test_workers_are_lost_in_a_microbatch_in_the_sums_and_at_the_commit(
    jobs: Jobs, tmp_path: Path
) -> None:
    deaths = Deaths(
        (Death("d", 3), Death("a", 4, at_sum=1), Death("c", 5, at_sum=COMMIT)), tmp_path / "notes"
    )
    job = jobs.start(train_in_buckets, replace(PLAN, nuisance=deaths), workers="abcd")
    for lost, left in (("d", "abc"), ("a", "bc"), ("c", "b")):
        job.until_dead(lost)
        job.publish(How.ABORT, *left)
    assert_undisturbed(job, "b")
    computed = [deaths.computed(3, "abc"), deaths.computed(4, "bc"), deaths.computed(5, "b")]
    assert computed == [MICROBATCHES] * 3


@pytest.mark.parametrize("at_sum", [0, 2])
def test_another_worker_is_lost_in_the_same_step_and_one_joins(
    jobs: Jobs, tmp_path: Path, at_sum: int
) -> None:
    deaths = Deaths(
        (Death("c", 3, at_sum=2), Death("b", 3, at_sum=at_sum, world=2)), tmp_path / "notes"
    )
    job = jobs.start(train_in_buckets, replace(PLAN, nuisance=deaths), workers="abc")
    job.until_dead("c")
    job.bring_in(How.ABORT, "a", "b", "d")
    job.until_dead("b")
    job.publish(How.ABORT, "a", "d")
    assert_undisturbed(job, "a", "d")
    assert deaths.computed(3, "ad") == MICROBATCHES
