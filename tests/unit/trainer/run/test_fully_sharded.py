"""torch divides a model among the processes of a copy: copies are lost, completed and joined."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from spotrun.wire import How
from spotrun_trainer import Parallel, Run
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.loop.evaluation.evaluate import evaluating
from tests.support.processes.trainer_world import Ended, run_alone, run_world
from tests.unit.trainer.run.elastic import Job, Jobs, die, this_is
from tests.unit.trainer.run.fully_sharded import (
    Blocks,
    FullySharded,
    begun,
    train_fully_sharded,
)
from tests.unit.trainer.run.scripts import CLASSES, Trained, dataset
from tests.unit.trainer.run.sharded import (
    FOUR,
    Both,
    DieBeforeCommit,
    assert_losses_among,
    complete_the_copy,
    leave_to_the_other_copy,
)
from tests.unit.trainer.run.test_worlds import DieInCollective, DieInForward, Hold

PLAN = FullySharded()


@cache
def alone(plan: FullySharded) -> Trained:
    """What one process comes to that holds the whole model."""
    return values([run_alone(train_fully_sharded, replace(plan, shard=1, nuisance=None))])[0]


def values(ended: Sequence[Ended]) -> tuple[Trained, ...]:
    assert [one.error for one in ended] == [""] * len(ended), "\n".join(one.said for one in ended)
    return tuple(one.value for one in ended)


def whole(parts: Sequence[Trained]) -> dict[str, Tensor]:
    """The tensors of the model, put together from the parts of one copy; buffers are whole."""
    return {
        name: first if name == "seen" else torch.cat([part.weights[name] for part in parts])
        for name, first in parts[0].weights.items()
    }


def assert_like_alone(plan: FullySharded, parts: Sequence[Trained]) -> None:
    """The processes of a copy have the losses and weights of a process alone, within rounding."""
    expected = alone(plan)
    learned = whole(parts)
    assert set(learned) == set(expected.weights)
    for name, weights in expected.weights.items():
        torch.testing.assert_close(learned[name], weights, atol=1e-4, rtol=1e-3)
    for part in parts:
        assert_losses_among(part.losses, expected.losses)


def assert_undisturbed(plan: FullySharded, job: Job, *workers: str) -> None:
    trained = values(job.ended(*workers))
    for first in range(0, len(trained), plan.shard):
        assert_like_alone(plan, trained[first : first + plan.shard])


@pytest.mark.parametrize(
    ("shard", "processes", "clip"),
    [(2, 2, 0.5), (2, 4, None), (4, 4, 0.5), (2, 6, 0.5), (1, 2, 0.5)],
)
def test_every_division_learns_what_one_process_does(
    shard: int, processes: int, clip: float | None
) -> None:
    plan = replace(PLAN, shard=shard, clip=clip, global_batch=24, evaluates=True)
    trained = values(run_world(processes, train_fully_sharded, plan))
    for first in range(0, processes, shard):
        assert_like_alone(plan, trained[first : first + shard])


DEATHS = [
    DieInForward("b1"),
    DieInForward("a0"),
    *(
        DieInCollective(worker, number, takes_part)
        for worker, number in (("a1", 1), ("b0", 2), ("b1", 3))
        for takes_part in (False, True)
    ),
    *(
        DieInCollective(worker, number, takes_part, count=0)
        for worker, number in (("a1", 1), ("b0", 2), ("b1", 5), ("a0", 7), ("b0", 9), ("a1", 11))
        for takes_part in (False, True)
    ),
]


@pytest.mark.parametrize("death", DEATHS, ids=str)
def test_the_other_copy_goes_on_as_if_nobody_had_died(
    jobs: Jobs, death: DieInForward | DieInCollective
) -> None:
    plan = replace(PLAN, nuisance=death)
    job = jobs.start(train_fully_sharded, plan, workers=FOUR)
    others, mate = leave_to_the_other_copy(job, death.worker)
    assert_undisturbed(plan, job, *others)
    assert job.is_alive(mate)
    assert (job.progress(mate).broken, job.progress(mate).in_process) == (1, True)


@pytest.mark.parametrize(
    "death",
    [DieInForward("b1"), DieInForward("a0"), DieInCollective("b1", 2, takes_part=False, count=0)],
    ids=str,
)
def test_the_mate_of_a_lost_worker_waits_with_its_part_and_is_completed(
    jobs: Jobs, tmp_path: Path, death: DieInForward | DieInCollective
) -> None:
    lost = death.worker
    plan = replace(PLAN, nuisance=Both(death, Hold(tmp_path, at=5)))
    job = jobs.start(train_fully_sharded, plan, workers=FOUR)
    assert_undisturbed(plan, job, *complete_the_copy(job, lost, tmp_path))


def test_mates_of_two_lost_workers_make_up_a_whole_copy(jobs: Jobs) -> None:
    plan = replace(
        PLAN, nuisance=Both(DieInCollective("a0", 3, takes_part=False, count=0), DieInForward("b1"))
    )
    job = jobs.start(train_fully_sharded, plan, workers=FOUR)
    job.until_dead("a0")
    job.until_dead("b1")
    job.publish(How.ABORT, "b0", "a1")
    assert_undisturbed(plan, job, "b0", "a1")


def test_a_loss_in_an_evaluation_leaves_the_other_copy_whole(jobs: Jobs) -> None:
    plan = replace(PLAN, evaluates=True)
    job = jobs.start(train_fully_sharded, plan, DieBeforeCommit("b1", 6), workers=FOUR)
    job.until_dead("b1")
    job.publish(How.ABORT, "a0", "a1")
    assert_undisturbed(plan, job, "a0", "a1")


def test_a_checkpoint_has_all_parts_and_starts_any_number_of_copies(tmp_path: Path) -> None:
    plan = replace(PLAN, total=4, checkpoint=str(tmp_path), every="2 steps")
    values(run_world(4, train_fully_sharded, plan))
    assert_like_alone(PLAN, values(run_world(2, train_fully_sharded, replace(plan, total=6))))


def test_what_cannot_be_is_said() -> None:
    uneven = run_world(2, train_fully_sharded, replace(PLAN, global_batch=18))
    assert "global_batch that is a multiple of microbatch x 2" in uneven[0].error
    for undivided in (shard_one_block, shard_nothing, head_of_its_own):
        refused = run_world(2, undivided)[0].error
        assert "parameters that torch has not divided" in refused, undivided.__name__
    assert "Adafactor computes with whole matrices" in run_world(2, with_adafactor)[0].error
    with pytest.raises(ValueError, match="adds up a copy's gradients in its own order"):
        Run(parallel=Parallel(shard=2), deterministic=True)
    with pytest.raises(ValueError, match="give one of them"):
        Run(parallel=Parallel(shard=2), shards=2)
    with pytest.raises(ValueError, match="at least one process"):
        Parallel(shard=0)


def shard_one_block() -> None:
    # Not for all processes of this file: it takes them a second.
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415

    run = Run(parallel=Parallel(shard=2))
    model = Blocks()
    fully_shard(model.blocks["0"], mesh=run.mesh)
    one_step(run, model)


def shard_nothing() -> None:
    run = Run(parallel=Parallel(shard=2))
    one_step(run, run.prepare(Blocks()))


def head_of_its_own() -> None:
    run = Run(parallel=Parallel(shard=2))
    one_step(run, run.prepare(Blocks(), shard=True), nn.Linear(CLASSES, CLASSES))


def with_adafactor() -> None:
    run = Run(parallel=Parallel(shard=2))
    model = run.prepare(Blocks(), shard=True)
    run.track(model=model, optimizer=torch.optim.Adafactor(model.parameters()))
    next(run.steps(dataset(), global_batch=8, microbatch=2, total=1))


def one_step(run: Run, *models: nn.Module) -> None:
    for number, model in enumerate(models):
        optimizer = torch.optim.AdamW(model.parameters())
        things: dict[str, Any] = {f"model{number}": model, f"optimizer{number}": optimizer}
        run.track(**things)
    next(run.steps(dataset(), global_batch=8, microbatch=2, total=1, num_workers=0))


def test_an_update_waits_once_for_the_others() -> None:
    """The votes, the loss and the gradient's norm are added up in one collective."""
    ended = run_world(2, collectives_of_an_update)
    assert [(one.error, one.value) for one in ended] == [("", 1)] * 2


def collectives_of_an_update() -> int:
    run, model, optimizer = begun(PLAN)
    begin, seen = Group._begin, 0

    def counting(*arguments: Any) -> Any:
        nonlocal seen
        seen += 1
        return begin(*arguments)

    Group._begin = counting  # type: ignore[method-assign,assignment]
    for step in run.steps(dataset(), global_batch=8, microbatch=2, total=3, num_workers=0):
        with step:
            for features, classes in step:
                step.backward(model(features).square().mean(), mean_of=len(classes))
            seen = 0
            step.update(optimizer, clip=1.0)
            in_update = seen
    return in_update


def test_a_block_may_be_fetched_ahead() -> None:
    """torch waits for works of its own kind only; ours are waited for where they begin."""
    plan = replace(PLAN, nuisance=unshard_ahead)
    assert_like_alone(plan, values(run_world(2, train_fully_sharded, plan)))


def unshard_ahead(run: Run, _step: int, count: int) -> None:
    if count >= 0:
        model: Any = next(one for one in run._context.things if isinstance(one, Blocks))
        if hasattr(model, "unshard"):
            model.blocks["0"].unshard(async_op=True)


def test_a_forward_pass_after_the_last_backward_leaves_nothing_stale() -> None:
    plan = replace(PLAN, nuisance=look_before_the_update)
    assert_like_alone(plan, values(run_world(2, train_fully_sharded, plan)))


def look_before_the_update(run: Run, _step: int, count: int) -> None:
    if count == -1:
        model: Any = next(one for one in run._context.things if isinstance(one, Blocks))
        with torch.no_grad(), evaluating(model):
            model(dataset().tensors[0][:4])
        if hasattr(model, "unshard"):
            model.unshard()  # as a root's parameters are after a forward pass


def test_an_error_over_numbers_of_a_broken_world_is_the_loss_of_a_peer(jobs: Jobs) -> None:
    plan = replace(PLAN, evaluates=True, nuisance=DieInEvaluation("b1"))
    job = jobs.start(train_fully_sharded, plan, workers=FOUR)
    job.until_dead("b1")
    job.publish(How.ABORT, "a0", "a1")
    assert_undisturbed(plan, job, "a0", "a1")
    assert job.is_alive("b0")


@dataclass(frozen=True)
class DieInEvaluation:
    """A worker dies in a forward pass of the evaluation; its mate's metric sees what is left."""

    worker: str

    def __call__(self, run: Run, step: int, count: int) -> None:
        if (step, count) != (3, -1):
            return
        model: Any = next(one for one in run._context.things if isinstance(one, Blocks))
        if this_is(self.worker):
            model.blocks["1"].register_forward_pre_hook(lambda *_: die())
        model.register_forward_hook(picky)


def picky(_model: nn.Module, _given: Any, result: Tensor) -> None:
    if not model_is_whole(result):
        raise ArithmeticError("a metric does not take such numbers")


def model_is_whole(result: Tensor) -> bool:
    return bool(torch.isfinite(result).all()) and float(result.abs().max()) < 1e6
