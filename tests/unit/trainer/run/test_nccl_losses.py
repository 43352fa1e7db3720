"""Losses over NCCL in process: whoever is left ends with what an undisturbed training ends with.

What carries the worlds is a stand-in that ends as NCCL was seen to end on a GPU: early, without an
error, and with partial sums (tests/support/gpu/nccl_on_host.py).
"""

import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from spotrun.wire import How
from spotrun_trainer.checkpoint.format.reading import together
from spotrun_trainer.checkpoint.format.reading.together import Together
from spotrun_trainer.elastic import state_transfer
from spotrun_trainer.elastic.backends import nccl
from spotrun_trainer.elastic.membership import Membership
from spotrun_trainer.run import Run
from tests.support.gpu import one_gpu
from tests.support.gpu.nccl_on_host import NcclOnHost, pretend
from tests.support.processes.trainer_world import run_alone
from tests.unit.trainer.run.elastic import Job, Jobs, this_is
from tests.unit.trainer.run.scripts import Plan, Trained, train
from tests.unit.trainer.run.sharded import Both
from tests.unit.trainer.run.test_join_window import MEMBER, DieAt, lose_in_a_join
from tests.unit.trainer.run.test_joining_workers import JOINING_WORKER
from tests.unit.trainer.run.test_restored_together import SAVED
from tests.unit.trainer.run.test_worlds import (
    PLAN,
    Death,
    DieInCollective,
    DieInForward,
    Doubt,
    Hold,
    assert_alike,
    assert_undisturbed,
    lose_one_of_three,
    tell_survivors,
)

DEATHS: list[Death] = [
    DieInForward("c"),
    DieInForward("a"),
    *(
        DieInCollective(worker, number, takes_part)
        for worker, number in (("a", 1), ("a", 3), ("a", 5), ("a", 6), ("c", 2), ("c", 5), ("c", 6))
        for takes_part in (False, True)
    ),
]


FIRED = list[int]()  # the steps, in this process, that were spoiled once


def train_over_nccl(plan: Plan) -> Trained:
    """Train as on GPUs, and continue after losses."""
    pretend()
    os.environ[nccl.VARIABLE] = "1"
    return train(plan)


def meet_anew(job: Job, worker: str) -> None:
    """Tell all three of the next world once one has left this one, of which nobody else hears."""
    job.until(lambda: job.progress(worker).broken == job.world_number)
    job.publish(How.ABORT, "a", "b", "c")


@pytest.mark.parametrize("death", DEATHS, ids=str)
def test_survivors_go_on_as_if_nobody_had_died(jobs: Jobs, death: Death) -> None:
    plan = replace(PLAN, nuisance=death)
    job, survivors = lose_one_of_three(jobs, train_over_nccl, plan, death.worker)
    assert_undisturbed(plan, job, *survivors)


@pytest.mark.parametrize("restore", [None, SAVED])
def test_in_the_first_step_survivors_begin_anew(
    jobs: Jobs, tmp_path: Path, restore: str | None
) -> None:
    """What they had at its begin, new or from a checkpoint, was never proved to be whole."""
    plan = replace(PLAN, checkpoint=str(tmp_path / "checkpoints") if restore else None)
    if restore:
        assert run_alone(train, replace(plan, total=3)).error == ""
    plan = replace(plan, nuisance=DieInForward("c", step=4 if restore else 1))
    job = jobs.start(train_over_nccl, plan, workers="abc", restore=restore)
    assert_undisturbed(plan, job, *tell_survivors(job, "c"))


@dataclass(frozen=True)
class RestoresLess:
    """In one worker a collective of those that restore a checkpoint ends early."""

    worker: str
    whole: int

    def __call__(self) -> None:
        fill = Together.fill

        def less(*args: Any) -> None:
            Together.fill = fill  # type: ignore[method-assign]
            NcclOnHost.whole["collective"] = self.whole
            fill(*args)

        if this_is(self.worker):
            Together.fill = less  # type: ignore[assignment,method-assign]


def train_restored(plan: Plan, spoil: RestoresLess) -> Trained:
    """Restore in shares of any size, of which one is not there."""
    together.SHARE_BYTES = 0
    spoil()
    return train_over_nccl(plan)


@pytest.mark.parametrize("whole", [0, 1, 2, 3])
def test_a_state_that_was_not_restored_whole_is_read_anew(
    jobs: Jobs, tmp_path: Path, whole: int
) -> None:
    plan = replace(PLAN, checkpoint=str(tmp_path / "checkpoints"))
    assert run_alone(train, replace(plan, total=3)).error == ""
    job = jobs.start(train_restored, plan, RestoresLess("b", whole), workers="abc", restore=SAVED)
    meet_anew(job, "b")
    assert_undisturbed(plan, job, "a", "b", "c")


@pytest.mark.parametrize("death", [DieInForward("a"), DieInCollective("c", 2, takes_part=True)])
def test_with_sums_in_any_order_survivors_still_have_the_same_state(
    jobs: Jobs, death: Death
) -> None:
    plan = replace(PLAN, nuisance=death, deterministic=False)
    job, survivors = lose_one_of_three(jobs, train_over_nccl, plan, death.worker)
    assert_alike(plan, job, *survivors)


@pytest.mark.parametrize("worker", ["a", "b"])
def test_who_does_not_know_of_a_commit_applies_what_the_others_have_applied(
    jobs: Jobs, worker: str
) -> None:
    plan = replace(PLAN, nuisance=Doubt(worker, of_ones=True))
    job = jobs.start(train_over_nccl, plan, workers="abc")
    meet_anew(job, worker)
    assert_undisturbed(plan, job, "a", "b", "c")


@dataclass(frozen=True)
class EndsEarly:
    """In a worker's third update a collective ends early: the next, or the one after so many."""

    worker: str
    whole: int

    def __call__(self, _run: Run, step: int, count: int) -> None:
        if this_is(self.worker) and (step, count) == (3, -1) and not FIRED:
            FIRED.append(step)
            NcclOnHost.whole["collective"] = self.whole


@pytest.mark.parametrize("whole", range(5))
def test_a_collective_that_ends_early_by_itself_leaves_nothing_wrong(
    jobs: Jobs, whole: int
) -> None:
    """Such as the sum of the commit's numbers, though a commit's ones would be all there."""
    plan = replace(PLAN, nuisance=EndsEarly("b", whole), deterministic=False)
    job = jobs.start(train_over_nccl, plan, workers="abc")
    meet_anew(job, "b")
    assert_alike(plan, job, "a", "b", "c")


@dataclass(frozen=True)
class MeetsBadly:
    """A worker doubts a commit, and in the next world something that it is told is not there."""

    doubt: Doubt
    kind: str

    def __call__(self, run: Run, step: int, count: int) -> None:
        if not this_is(self.doubt.worker) or FIRED or (step, count) != (3, -1):
            return
        self.doubt(run, step, count)
        FIRED.append(step)
        exchange = Membership._exchange

        def badly(*args: Any) -> Any:
            Membership._exchange = exchange  # type: ignore[method-assign]
            NcclOnHost.whole[self.kind] = 0
            return exchange(*args)

        Membership._exchange = badly  # type: ignore[assignment,method-assign]


@pytest.mark.parametrize("kind", ["collective", "message"])
def test_what_is_told_in_a_world_that_breaks_at_once_is_not_believed(jobs: Jobs, kind: str) -> None:
    """Who has committed what, and the sums of a commit for who lacks them."""
    plan = replace(PLAN, nuisance=MeetsBadly(Doubt("b", of_ones=True), kind), deterministic=False)
    job = jobs.start(train_over_nccl, plan, workers="abc")
    meet_anew(job, "b")
    meet_anew(job, "b")
    assert_alike(plan, job, "a", "b", "c")


def test_who_stands_still_holds_nobody_up(jobs: Jobs) -> None:
    job = jobs.start(train_over_nccl, Plan(total=100_000), workers="abc")
    job.until(lambda: job.progress("a").step >= 5)
    job.signal("c", signal.SIGSTOP)
    before = job.progress("a").step
    job.publish(How.ABORT, "a", "b")
    job.until(lambda: all(job.progress(each).step > before + 2 for each in "ab"))
    assert all(job.progress(each).world_number == 2 for each in "ab")
    job.signal("c", signal.SIGCONT)


def test_losses_and_joining_workers_follow_each_other(jobs: Jobs, tmp_path: Path) -> None:
    first, then = tmp_path / "first", tmp_path / "then"
    for each in (first, then):
        each.mkdir()
    plan = replace(PLAN, total=9, nuisance=Both(Hold(first, at=3), Hold(then, at=5)))
    job = jobs.start(train_over_nccl, plan, workers="abc")
    job.until((first / "held").exists)
    job.signal("a", signal.SIGKILL)
    job.publish(How.ABORT, "b", "c")
    (first / "go").touch()
    job.until((then / "held").exists)
    job.bring_in(How.BOUNDARY, "b", "n", "c")
    (then / "go").touch()
    job.until(lambda: all(job.progress(each).world_number == 3 for each in "bnc"))
    assert_undisturbed(plan, job, "b", "n", "c")


@pytest.mark.parametrize(
    ("victim", "point"),
    [
        *((JOINING_WORKER, point) for point in ("formed", "with the header", "with the state")),
        *((MEMBER, point) for point in ("standings known", "amid giving", "given")),
        *((victim, "in the commit") for victim in (JOINING_WORKER, MEMBER)),
    ],
)
def test_a_death_in_a_join_costs_the_others_nothing(
    jobs: Jobs, tmp_path: Path, victim: str, point: str
) -> None:
    lose_in_a_join(jobs, train_over_nccl, DieAt(victim, point, tmp_path))


@dataclass(frozen=True)
class ReceivesLess:
    """A part of the state that a joining worker receives is not there, without an error."""

    hold: Hold
    whole: int

    def __call__(self, run: Run, step: int, count: int) -> None:
        if not this_is(JOINING_WORKER):
            self.hold(run, step, count)
        elif not FIRED:
            FIRED.append(step)
            receive = state_transfer.receive

            def less(*args: Any, **kwargs: Any) -> None:
                state_transfer.receive = receive
                NcclOnHost.whole["message"] = self.whole
                receive(*args, **kwargs)

            state_transfer.receive = less


@pytest.mark.parametrize("whole", [0, 1])
def test_a_state_that_was_not_received_whole_is_given_anew(
    jobs: Jobs, tmp_path: Path, whole: int
) -> None:
    """The first commit after it fails, and shows that something may be missing."""
    plan = replace(PLAN, nuisance=ReceivesLess(Hold(tmp_path), whole))
    job = jobs.start(train_over_nccl, plan, workers="ab")
    job.until((tmp_path / "held").exists)
    job.bring_in(How.BOUNDARY, "a", JOINING_WORKER, "b")
    (tmp_path / "go").touch()
    job.until(lambda: job.progress(JOINING_WORKER).broken)
    job.publish(How.ABORT, "a", JOINING_WORKER, "b")
    assert_undisturbed(plan, job, "a", JOINING_WORKER, "b")


def train_on_a_gpu_that_cannot_be_freed(plan: Plan) -> Trained:
    nccl.END_SECONDS = 0.5
    NcclOnHost.abort_seconds = 60.0 if this_is("a") else 0.0
    return train_over_nccl(plan)


def test_a_process_whose_gpu_cannot_be_freed_is_started_again(jobs: Jobs) -> None:
    plan = replace(PLAN, nuisance=DieInForward("c"))
    job = jobs.start(train_on_a_gpu_that_cannot_be_freed, plan, workers="abc")
    tell_survivors(job, "c")
    (stranded,) = job.ended("a")
    assert "the GPU still works for the broken world; this process is started again" in (
        stranded.error
    )
    job.publish(How.ABORT, "b")
    assert_undisturbed(plan, job, "b")


def test_they_say_that_they_outlive_a_break_only_where_they_are_asked_to(jobs: Jobs) -> None:
    job = jobs.start(train_over_nccl, Plan(total=100_000), workers="ab")
    job.until(lambda: job.progress("a").step >= 1)
    assert not job.progress("a").needs_boundary


@pytest.mark.parametrize(
    ("env", "shards", "expected"),
    [
        ({}, 1, False),
        ({nccl.VARIABLE: "0"}, 1, False),
        ({nccl.VARIABLE: "1"}, 1, True),
        ({nccl.VARIABLE: "1"}, 2, False),
    ],
)
def test_a_process_continues_where_it_is_asked_to_and_holds_a_whole_copy(
    env: dict[str, str], shards: int, expected: bool
) -> None:
    assert nccl.outlives_a_break(env, shards) is expected


def test_another_value_is_refused() -> None:
    with pytest.raises(ValueError, match="SPOTRUN_NCCL_IN_PROCESS is 'yes': 1 lets processes"):
        nccl.outlives_a_break({nccl.VARIABLE: "yes"}, 1)


@pytest.mark.gpu(shared=True)
@pytest.mark.parametrize(
    "death",
    [
        DieInForward("c"),
        DieInCollective("a", 1, takes_part=False),
        DieInCollective("c", 2, takes_part=True),
        DieInCollective("c", 6, takes_part=False),
    ],
    ids=str,
)
def test_on_a_gpu_survivors_go_on_as_if_nobody_had_died(jobs: Jobs, death: Death) -> None:
    plan = replace(PLAN, nuisance=death)
    job = jobs.start(train, plan, workers=())
    job.publish(How.RESTART, "a", "b", "c")
    for number, worker in enumerate("abc"):
        job.start(worker, env={**one_gpu.neighbours(number), nccl.VARIABLE: "1"})
    assert_undisturbed(plan, job, *tell_survivors(job, death.worker))
