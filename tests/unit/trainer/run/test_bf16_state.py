"""An optimizer's state in 16 bits goes wherever a training goes."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from spotrun.wire import How
from spotrun_trainer import Parallel, Run, bf16_state
from tests.support.processes.trainer_world import run_alone, run_world
from tests.unit.trainer.run.elastic import Jobs
from tests.unit.trainer.run.fully_sharded import Blocks
from tests.unit.trainer.run.scripts import Plan, dataset, train
from tests.unit.trainer.run.test_worlds import DieInCollective, Hold, assert_undisturbed

PLAN = Plan(total=6, deterministic=True, with_bf16_state=True)


def test_the_state_is_another_one_than_in_32_bits() -> None:
    narrow, wide = (
        run_alone(train, replace(PLAN, with_bf16_state=narrow)).value for narrow in (True, False)
    )
    assert narrow.digest != wide.digest
    assert narrow.losses == pytest.approx(wide.losses, abs=1e-2)


def test_a_worker_that_joins_gets_it(jobs: Jobs, tmp_path: Path) -> None:
    plan = replace(PLAN, nuisance=Hold(tmp_path))
    job = jobs.start(train, plan, workers="a")
    job.until((tmp_path / "held").exists)
    job.bring_in(How.BOUNDARY, "n", "a")
    (tmp_path / "go").touch()
    assert_undisturbed(plan, job, "a", "n")


def test_survivors_round_alike(jobs: Jobs) -> None:
    plan = replace(PLAN, nuisance=DieInCollective("c", 2, takes_part=True))
    job = jobs.start(train, plan, workers="abc")
    job.until_dead("c")
    job.publish(How.ABORT, "a", "b")
    assert_undisturbed(plan, job, "a", "b")


def test_a_restored_training_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    expected = run_alone(train, PLAN).value
    run_world(2, train, replace(PLAN, total=3, checkpoint=str(tmp_path)))
    ended = run_alone(train, replace(PLAN, checkpoint=str(tmp_path)))
    assert ended.error == "", ended.said
    assert ended.value.digest == expected.digest


def sharded(size: int) -> tuple[list[float], set[str]]:
    """The losses, and the types of what the optimizer keeps."""
    run = Run(1, parallel=Parallel(shard=size))
    model = run.prepare(Blocks(), shard=True)
    optimizer = bf16_state(torch.optim.AdamW(model.parameters(), lr=0.02))
    run.track(model=model, optimizer=optimizer)
    losses = []
    for step in run.steps(dataset(), global_batch=16, microbatch=4, total=8, num_workers=0):
        with step:
            for features, classes in step:
                loss = cross_entropy(model(features), classes)
                step.backward(loss, mean_of=len(classes))
            step.update(optimizer, clip=1.0)
            losses.append(float(step.loss))
    state = [one for each in optimizer.state.values() for one in each.values() if one.numel() > 1]
    return losses, {str(one.dtype) for one in state}


def test_parts_of_a_model_keep_their_parts_of_it_so() -> None:
    (alone,) = run_world(1, sharded, 1)
    for ended in run_world(2, sharded, 2):
        assert ended.error == "", ended.said
        assert ended.value[0] == pytest.approx(alone.value[0], abs=2e-2)
        assert ended.value[1] == {"torch.bfloat16"}
