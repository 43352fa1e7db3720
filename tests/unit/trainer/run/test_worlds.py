"""Worlds change in process: whoever is left ends with what an undisturbed training ends with.

Deterministic mode gives the same bits at every number of processes. So equal bits prove that every
sample was used once, in the right step, and that nothing of a discarded step is left.
"""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

from spotrun.wire import How
from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.elastic.pending_collectives import Done, Pending
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.run import Run
from tests.support.processes.trainer_world import run_alone
from tests.unit.trainer.run.elastic import PATIENCE_SECONDS, Job, Jobs, die, this_is
from tests.unit.trainer.run.scripts import Plan, Trained, train

PLAN = Plan(total=6, with_batch_norm=True, with_dropout=True, clip=0.5, deterministic=True)


@cache
def undisturbed(plan: Plan) -> Trained:
    trained: Trained = run_alone(train, replace(plan, nuisance=None, checkpoint=None)).value
    return trained


def assert_undisturbed(plan: Plan, job: Job, *workers: str) -> None:
    """Each of them has made every step that was left when it came, and has the expected bits."""
    expected = undisturbed(plan)
    for ended in job.ended(*workers):
        assert ended.error == "", ended.said
        assert expected.digest == ended.value.digest
        assert expected.losses[-len(ended.value.losses) :] == ended.value.losses


@dataclass(frozen=True)
class DieInForward:
    worker: str
    step: int = 3

    def __call__(self, _run: Run, step: int, count: int) -> None:
        if this_is(self.worker) and (step, count) == (self.step, 1):
            die()


@dataclass(frozen=True)
class DieInCollective:
    """A worker dies at the n-th collective of its third update, before it takes part or after.

    Or at the n-th after one of the microbatches of that step, which a sharded model may begin.
    """

    worker: str
    number: int
    takes_part: bool
    count: int = -1

    def __call__(self, _run: Run, step: int, count: int) -> None:
        if not this_is(self.worker) or (step, count) != (3, self.count):
            return
        begin, seen = Group._begin, 0

        def dying(group: Group, collective: object, tensor: Tensor | None = None) -> Pending:
            nonlocal seen
            seen += 1
            if seen < self.number:
                return begin(group, collective, tensor)  # type: ignore[arg-type]
            if self.takes_part:
                begin(group, collective, tensor).wait()  # type: ignore[arg-type]
            die()
            raise AssertionError

        Group._begin = dying  # type: ignore[method-assign,assignment]


Death = DieInForward | DieInCollective
DEATHS: list[Death] = [
    DieInForward("c"),
    DieInForward("a"),
    *(
        DieInCollective(worker, number, takes_part)
        for worker, number in (("a", 1), ("a", 3), ("a", 5), ("c", 1), ("c", 2), ("c", 4), ("c", 5))
        for takes_part in (False, True)
    ),
]


def lose_one_of_three(
    jobs: Jobs, function: Callable[[Plan], Trained], plan: Plan, worker: str
) -> tuple[Job, list[str]]:
    """Tell the others, once it is dead, to continue; return the job and these others."""
    job = jobs.start(function, plan, workers="abc")
    return job, tell_survivors(job, worker)


def tell_survivors(job: Job, worker: str) -> list[str]:
    """Tell the others of three, once a worker is dead, to continue; return these."""
    job.until_dead(worker)
    survivors = sorted({"a", "b", "c"} - {worker})
    job.publish(How.ABORT, *survivors)
    return survivors


def assert_alike(plan: Plan, job: Job, *workers: str) -> None:
    """All have the same bits, and the losses of an undisturbed training but for rounding."""
    ended = job.ended(*workers)
    assert [one.error for one in ended] == [""] * len(workers), ended[0].said
    assert len({one.value.digest for one in ended}) == 1
    assert undisturbed(plan).losses == pytest.approx(ended[0].value.losses, abs=1e-3)


@pytest.mark.parametrize("death", DEATHS, ids=str)
def test_survivors_go_on_as_if_nobody_had_died(jobs: Jobs, death: Death) -> None:
    plan = replace(PLAN, nuisance=death)
    job, survivors = lose_one_of_three(jobs, train, plan, death.worker)
    assert_undisturbed(plan, job, *survivors)


@pytest.mark.parametrize("death", [DieInForward("a"), DieInCollective("c", 2, takes_part=True)])
def test_with_sums_in_any_order_survivors_still_have_the_same_state(
    jobs: Jobs, death: Death
) -> None:
    plan = replace(PLAN, nuisance=death, deterministic=False)
    job, survivors = lose_one_of_three(jobs, train, plan, death.worker)
    assert_alike(plan, job, *survivors)


@dataclass(frozen=True)
class Doubt:
    """A worker hears that the commit of the third step has failed, after the others have it.

    Over NCCL what shows that it has succeeded is a sum of its own, of ones.
    """

    worker: str
    of_ones: bool = False

    def __call__(self, _run: Run, step: int, count: int) -> None:
        if not this_is(self.worker) or (step, count) != (3, -1):
            return
        whole = Group.all_reduce

        def doubtful(group: Group, tensor: Tensor) -> Pending:
            whole(group, tensor).wait()
            if tensor.dtype == torch.float64 and (len(tensor) == 1 or not self.of_ones):
                Group.all_reduce = whole  # type: ignore[method-assign]
                raise PeerLostError("so it seems")
            return Done()

        Group.all_reduce = doubtful  # type: ignore[method-assign,assignment]


@pytest.mark.parametrize("worker", ["a", "b"])
@pytest.mark.parametrize("deterministic", [True, False])
def test_who_does_not_know_of_a_commit_applies_what_the_others_have_applied(
    jobs: Jobs, worker: str, deterministic: bool
) -> None:
    plan = replace(PLAN, nuisance=Doubt(worker), deterministic=deterministic)
    job = jobs.start(train, plan, workers="abc")
    job.until(lambda: all(job.progress(each).broken for each in "abc"))
    job.publish(How.ABORT, "a", "b", "c")
    if deterministic:
        assert_undisturbed(plan, job, "a", "b", "c")
        return
    ended = job.ended("a", "b", "c")
    assert [one.error for one in ended] == [""] * 3, ended[0].said
    assert len({one.value.digest for one in ended}) == 1
    assert [PLAN.total] * 3 == [len(one.value.losses) for one in ended]


@dataclass(frozen=True)
class Hold:
    """Everybody waits in a step until the test lets go."""

    folder: Path
    at: int = 3

    def __call__(self, _run: Run, step: int, count: int) -> None:
        if step < self.at:
            return
        (self.folder / "held").touch()
        until = time.monotonic() + PATIENCE_SECONDS
        while not (self.folder / "go").exists():
            assert time.monotonic() < until
            time.sleep(0.005)


@dataclass(frozen=True)
class DoubtAndHold:
    """Who doubts is left behind, until the test lets go of the others."""

    doubt: Doubt
    hold: Hold

    def __call__(self, run: Run, step: int, count: int) -> None:
        self.doubt(run, step, count)
        if not this_is(self.doubt.worker):
            self.hold(run, step, count)


def test_who_was_left_behind_amid_a_commit_comes_back_with_the_state_of_the_others(
    jobs: Jobs, tmp_path: Path
) -> None:
    plan = replace(PLAN, nuisance=DoubtAndHold(Doubt("b"), Hold(tmp_path, at=5)))
    job = jobs.start(train, plan, workers="abc")
    job.until(lambda: all(job.progress(each).broken for each in "abc"))
    job.publish(How.ABORT, "a", "c")
    job.until((tmp_path / "held").exists)
    job.publish(How.BOUNDARY, "a", "b", "c")
    (tmp_path / "go").touch()
    assert_undisturbed(plan, job, "a", "c")
    (left_behind,) = job.ended("b")
    assert left_behind.error == "", left_behind.said
    assert undisturbed(plan).digest == left_behind.value.digest


def test_workers_leave_at_a_boundary(jobs: Jobs, tmp_path: Path) -> None:
    plan = replace(PLAN, nuisance=Hold(tmp_path))
    job = jobs.start(train, plan, workers="abc")
    job.until((tmp_path / "held").exists)
    job.publish(How.BOUNDARY, "b")
    (tmp_path / "go").touch()
    assert_undisturbed(plan, job, "b")
    assert (job.progress("a").broken, job.progress("a").ready) == (1, True)
    assert job.progress("a").step < PLAN.total


@pytest.mark.parametrize("before", [("a",), ("a", "b")], ids=len)
@pytest.mark.parametrize("members", [("a", "n"), ("n", "a"), ("m", "a", "n")], ids=str)
def test_joining_workers_join_at_a_boundary(
    jobs: Jobs, tmp_path: Path, before: tuple[str, ...], members: tuple[str, ...]
) -> None:
    plan = replace(PLAN, nuisance=Hold(tmp_path))
    job = jobs.start(train, plan, workers=before)
    job.until((tmp_path / "held").exists)
    job.bring_in(How.BOUNDARY, *members)
    (tmp_path / "go").touch()
    assert_undisturbed(plan, job, *members)


@dataclass(frozen=True)
class OneOfTwoDies:
    """The second process of a worker dies; torchrun ends the first one soon after that."""

    worker: str

    def __call__(self, _run: Run, step: int, count: int) -> None:
        is_second = this_is(self.worker) and os.environ["LOCAL_RANK"] == "1"
        if is_second and (step, count) == (3, 1):
            die()


@pytest.mark.parametrize("worker", ["a", "b"])
def test_workers_with_several_processes_go_on_without_one_of_them(jobs: Jobs, worker: str) -> None:
    plan = replace(PLAN, nuisance=OneOfTwoDies(worker))
    job = jobs.start(train, plan, workers="ab", processes=2)
    job.until(lambda: job.progress(worker).broken)
    job.signal(worker, signal.SIGKILL)
    job.until_dead(worker)
    (survivor,) = {"a", "b"} - {worker}
    job.publish(How.ABORT, survivor)
    assert_undisturbed(plan, job, survivor)


def test_a_worker_with_several_processes_joins_at_a_boundary(jobs: Jobs, tmp_path: Path) -> None:
    plan = replace(PLAN, nuisance=Hold(tmp_path))
    job = jobs.start(train, plan, workers="a", processes=2)
    job.until((tmp_path / "held").exists)
    job.bring_in(How.BOUNDARY, "n", "a")
    (tmp_path / "go").touch()
    assert_undisturbed(plan, job, "a", "n")


def test_a_worker_of_which_one_process_stands_still_does_not_say_that_it_enters(
    jobs: Jobs,
) -> None:
    job = jobs.start(train, Plan(total=100_000), workers="abc", processes=2)
    job.until(lambda: job.progress("a").step >= 5)
    job.signal_one("b", 1, signal.SIGSTOP)
    try:
        job.signal("c", signal.SIGKILL)
        job.publish(How.ABORT, "a", "b")
        job.until(lambda: job.progress("a").entering == 2)
        # Its first process has said so for itself.
        job.until(lambda: '"entering":2' in (job.directory("b") / "progress.json").read_text())
        assert (job.progress("b").entering, job.progress("b").world_number) == (1, 1)
    finally:
        job.signal_one("b", 1, signal.SIGCONT)
