"""Sums in fewer bytes, in real processes that come and go: all of them keep the same weights."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from spotrun.wire import How
from spotrun_trainer import Parallel, PowerSGD, Run, TopK
from spotrun_trainer.step.reduce.compression import BF16, Compression
from tests.support.processes.trainer_world import run_alone, run_world
from tests.unit.trainer.run.begun import Made, first_step
from tests.unit.trainer.run.elastic import Jobs
from tests.unit.trainer.run.fully_sharded import FullySharded, train_fully_sharded
from tests.unit.trainer.run.scripts import Plan, Trained, train, train_by_hand
from tests.unit.trainer.run.test_joining_workers import JOINING_WORKER, Meanwhile, join, until_taken
from tests.unit.trainer.run.test_worlds import DieInCollective

ALL: list[Compression] = [BF16(), PowerSGD(rank=1), TopK(ratio=0.1)]
PLAN = Plan(total=8, with_adam=False, clip=0.5)

each = pytest.mark.parametrize("compress", ALL, ids=str)


@pytest.mark.parametrize("compress", ["bf16", *ALL[1:]], ids=str)
def test_all_have_the_same_weights_and_learn(compress: Compression) -> None:
    ended = run_world(3, train, replace(PLAN, compress=compress))
    assert [one.error for one in ended] == [""] * 3, ended[0].said
    assert len({one.value.digest for one in ended}) == 1
    losses, plain = ended[0].value.losses, train_by_hand(PLAN).losses
    assert losses[0] == pytest.approx(plain[0])
    assert losses != pytest.approx(plain, abs=1e-7)  # of a sum that is not the whole
    assert sum(losses[-3:]) < sum(losses[:3])


@each
@pytest.mark.parametrize("death", [DieInCollective("c", 1, True), DieInCollective("c", 3, True)])
def test_survivors_have_the_same_weights(
    jobs: Jobs, death: DieInCollective, compress: Compression
) -> None:
    job = jobs.start(train, replace(PLAN, compress=compress, nuisance=death), workers="abc")
    job.until_dead("c")
    job.publish(How.ABORT, "a", "b")
    ended = job.ended("a", "b")
    assert [one.error for one in ended] == [""] * 2, [one.said for one in ended]
    assert ended[0].value.digest == ended[1].value.digest


@each
def test_who_joins_has_the_same_weights(jobs: Jobs, tmp_path: Path, compress: Compression) -> None:
    plan = replace(PLAN, compress=compress, nuisance=Meanwhile(tmp_path, until_taken))
    ended = join(jobs, plan, tmp_path).ended("a", JOINING_WORKER, "b")
    assert [one.error for one in ended] == [""] * 3, [one.said for one in ended]
    assert len({one.value.digest for one in ended}) == 1


@cache
def alone(plan: Plan) -> Trained:
    trained: Trained = run_alone(train, plan).value
    return trained


@pytest.mark.parametrize("takes_part", [False, True])
def test_with_everything_sent_results_are_those_of_plain_sums(jobs: Jobs, takes_part: bool) -> None:
    plan = replace(PLAN, compress=TopK(ratio=1))
    death = DieInCollective("c", 1, takes_part)
    job = jobs.start(train, replace(plan, nuisance=death), workers="abc")
    job.until_dead("c")
    job.publish(How.ABORT, "a", "b")
    for ended in job.ended("a", "b"):
        assert ended.error == "", ended.said
        assert ended.value.losses == pytest.approx(alone(PLAN).losses, abs=1e-5)


def test_alone_nothing_is_left_out() -> None:
    plan = replace(PLAN, compress=TopK(ratio=0.01))
    assert alone(plan).digest == alone(PLAN).digest


@pytest.mark.parametrize("compress", [PowerSGD(rank=1), TopK(ratio=1)], ids=str)
def test_copies_of_a_sharded_model_send_less_to_each_other(compress: Compression) -> None:
    ended = run_world(4, train_fully_sharded, FullySharded(compress=compress))
    assert [one.error for one in ended] == [""] * 4, ended[0].said
    parts = [one.value.weights for one in ended]
    for one, other in ((0, 2), (1, 3)):  # the same part of both copies
        assert all(torch.equal(parts[one][name], parts[other][name]) for name in parts[one])
    plain = run_world(2, train_fully_sharded, FullySharded())[0].value.losses
    is_whole = compress == TopK(ratio=1)
    assert (ended[0].value.losses == pytest.approx(plain, abs=1e-5)) == is_whole


def test_a_scaler_is_refused(made: Made) -> None:
    run, _, _ = made
    run._compression = BF16()
    run.track(scaler=torch.amp.GradScaler("cpu"))
    with pytest.raises(ValueError, match="GradScaler"):
        first_step(run)


def test_layers_that_are_divided_are_refused() -> None:
    with pytest.raises(ValueError, match="same parameter"):
        Run(parallel=Parallel(tensor=2), compress="topk")
