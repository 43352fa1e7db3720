"""Several processes hold one copy of the model: copies are lost, completed and joined in process.

In deterministic mode each part has the same bits at every number of copies, so equal bits prove
that each process has got the state of its own part, and every sample was used once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import distributed, nn
from torch.distributed import HashStore  # type: ignore[attr-defined]  # not in its __all__

from spotrun.wire import How
from spotrun_trainer import Run
from tests.support.processes.trainer_world import Ended, run_alone, run_world
from tests.unit.trainer.run.elastic import Job, Jobs
from tests.unit.trainer.run.scripts import Trained
from tests.unit.trainer.run.sharded import (
    FOUR,
    Both,
    DieBeforeCommit,
    Sharded,
    complete_the_copy,
    leave_to_the_other_copy,
    train_part,
    whole,
)
from tests.unit.trainer.run.test_worlds import DieInCollective, DieInForward, Hold

PLAN = Sharded()


@cache
def undisturbed(plan: Sharded) -> tuple[Trained, ...]:
    """By part: what one copy alone comes to."""
    return values(run_world(plan.shards, train_part, replace(plan, nuisance=None)))


def values(ended: Sequence[Ended]) -> tuple[Trained, ...]:
    assert [one.error for one in ended] == [""] * len(ended), "\n".join(one.said for one in ended)
    return tuple(one.value for one in ended)


def assert_undisturbed(plan: Sharded, job: Job, *workers: str) -> None:
    """Each has the bits of its own part, and those of every loss that it was there for."""
    for worker, trained in zip(workers, values(job.ended(*workers)), strict=True):
        expected = undisturbed(plan)[int(worker[-1])]
        assert expected.digest == trained.digest, worker
        assert set(trained.losses) <= set(expected.losses), worker


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("copies", [1, 2])
def test_parts_of_a_model_learn_what_the_whole_would(copies: int, deterministic: bool) -> None:
    plan = replace(PLAN, deterministic=deterministic)
    alone = values([run_alone(train_part, replace(plan, shards=1))])[0]
    parts = values(run_world(2 * copies, train_part, plan))
    for copy in range(copies):
        learned = whole(parts[2 * copy : 2 * copy + 2])
        for name, weights in alone.weights.items():
            torch.testing.assert_close(learned[name], weights, atol=1e-4, rtol=1e-3)
    for part in parts:
        assert alone.losses == pytest.approx(part.losses, abs=1e-4)


DEATHS = [
    DieInForward("b1"),
    DieInForward("a0"),
    *(
        DieInCollective(worker, number, takes_part)
        for worker, number in (("a1", 1), ("b0", 3), ("b1", 6), ("a0", 8))
        for takes_part in (False, True)
    ),
]


@pytest.mark.parametrize("death", DEATHS, ids=str)
def test_the_other_copy_goes_on_as_if_nobody_had_died(
    jobs: Jobs, death: DieInForward | DieInCollective
) -> None:
    plan = replace(PLAN, nuisance=death)
    job = jobs.start(train_part, plan, workers=FOUR)
    others, mate = leave_to_the_other_copy(job, death.worker)
    assert_undisturbed(plan, job, *others)
    assert job.is_alive(mate)
    assert (job.progress(mate).broken, job.progress(mate).in_process) == (1, True)


@pytest.mark.parametrize("lost", ["b1", "a0"])
def test_the_mate_of_a_lost_worker_waits_warm_and_is_completed(
    jobs: Jobs, tmp_path: Path, lost: str
) -> None:
    death = DieInForward(lost)
    plan = replace(PLAN, nuisance=Both(death, Hold(tmp_path, at=5)))
    job = jobs.start(train_part, plan, workers=FOUR)
    assert_undisturbed(plan, job, *complete_the_copy(job, lost, tmp_path))


def test_where_a_worker_holds_a_whole_copy_its_processes_come_and_go_together(
    jobs: Jobs, tmp_path: Path
) -> None:
    plan = replace(PLAN, nuisance=Both(DieInForward("b"), Hold(tmp_path, at=5)))
    job = jobs.start(train_part, plan, workers="ab", processes=plan.shards)
    job.until_dead("b")
    job.publish(How.ABORT, "a")
    job.until((tmp_path / "held").exists)
    job.bring_in(How.BOUNDARY, "n", "a")
    (tmp_path / "go").touch()
    ended = values(job.ended("n", "a"))
    assert [one.digest for one in undisturbed(plan)] * 2 == [one.digest for one in ended]


def test_mates_of_two_lost_workers_make_up_a_whole_copy(jobs: Jobs) -> None:
    plan = replace(PLAN, nuisance=Both(DieInForward("a0"), DieInForward("b1")))
    job = jobs.start(train_part, plan, workers=FOUR)
    job.until_dead("a0")
    job.until_dead("b1")
    job.publish(How.ABORT, "b0", "a1")
    assert_undisturbed(plan, job, "b0", "a1")


def test_the_mate_of_a_worker_lost_in_an_evaluation_is_started_again(
    jobs: Jobs, tmp_path: Path
) -> None:
    # Its new partner is in a step when it would come back, and does not evaluate with it.
    plan = replace(PLAN, evaluates=True, nuisance=Hold(tmp_path, at=5))
    job = jobs.start(train_part, plan, DieBeforeCommit("b1", 6), workers=FOUR)
    job.until_dead("b1")
    job.publish(How.ABORT, "a0", "a1")
    job.until((tmp_path / "held").exists)
    job.bring_in(How.BOUNDARY, "a0", "a1", "b0", "n1")
    (tmp_path / "go").touch()
    job.until_dead("b0")
    job.publish(How.ABORT, "a0", "a1")
    assert "StrandedError" in job.ended("b0")[0].error
    assert_undisturbed(plan, job, "a0", "a1")


def test_a_checkpoint_has_all_parts_and_starts_any_number_of_copies(tmp_path: Path) -> None:
    plan = replace(PLAN, total=4, checkpoint=str(tmp_path), every="2 steps")
    values(run_world(4, train_part, plan))
    parts = values(run_world(2, train_part, replace(plan, total=6)))
    for expected, part in zip(undisturbed(PLAN), parts, strict=True):
        assert (expected.digest, expected.losses[4:]) == (part.digest, part.losses)
    refused = run_alone(train_part, replace(plan, shards=1)).error
    assert "2 processes shared a copy of the model when it was saved, now 1" in refused


@dataclass(frozen=True)
class Spoil:
    """In a step one part of the model gets weights that are not finite, in all copies."""

    part: int
    at: int

    def __call__(self, run: Run, step: int, count: int) -> None:
        if run.rank % PLAN.shards == self.part and (step, count) == (self.at, -1):
            model = next(one for one in run._context.things if isinstance(one, nn.Module))
            with torch.no_grad():
                next(model.parameters())[0, 0] = torch.nan


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("last", [4, 6])
def test_no_part_is_saved_where_the_weights_of_another_are_not_finite(
    tmp_path: Path, part: int, copies: int, last: int
) -> None:
    """Whose own part is finite would else wait for the other one, or save what nobody can use."""
    plan = replace(
        PLAN, total=last, checkpoint=str(tmp_path), every="1 steps", nuisance=Spoil(part, 4)
    )
    for ended in run_world(2 * copies, train_part, plan):
        assert "NotFiniteError: the weights are not finite, so nothing is saved" in ended.error
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept
    assert kept <= {"step-1.g0", "step-2.g0", "step-3.g0"}


def test_the_processes_of_a_copy_exchange_what_they_like() -> None:
    plan = replace(PLAN, total=1, nuisance=exchange)
    values(run_world(4, train_part, plan))


def exchange(_run: Run, _step: int, _count: int) -> None:
    part = distributed.get_rank()
    own = torch.tensor([float(part)])
    gathered = [torch.empty(1), torch.empty(1)]
    distributed.all_gather(gathered, own)
    assert torch.cat(gathered).tolist() == [0, 1]
    distributed.all_reduce(own, op=distributed.ReduceOp.MAX)
    assert own.item() == 1
    given = torch.tensor([float(part)])
    distributed.broadcast(given, src=1)
    assert given.item() == 1
    if part == 0:
        distributed.send(torch.tensor([7.0]), dst=1)
    else:
        distributed.recv(given, src=0)
        assert given.item() == 7


def test_what_cannot_be_is_said() -> None:
    clipped = run_world(2, train_part, replace(PLAN, clip=1.0))
    assert "clip= needs the norm of the whole gradient" in clipped[0].error
    divided = run_world(2, train_part, replace(PLAN, shards=3))
    assert "2 processes cannot hold whole copies of a model that takes 3" in divided[0].error
    early = run_world(2, collective_before_the_first_step)
    assert "meet when the first step begins" in early[0].error
    elsewhere = run_alone(track_what_torch_has_sharded).error
    assert "over other processes than those of run.mesh" in elsewhere


def collective_before_the_first_step() -> None:
    Run(shards=2)
    distributed.all_reduce(torch.ones(1))


def track_what_torch_has_sharded() -> None:
    # Not for all processes of this file: it takes them a second.
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415
    from torch.distributed.tensor import distribute_module  # noqa: PLC0415

    distributed.init_process_group(store=HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    Run().track(model=distribute_module(nn.Linear(2, 2), mesh))
