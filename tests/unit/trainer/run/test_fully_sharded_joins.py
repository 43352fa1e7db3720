"""Copies that torch divides are made up of processes that have trained, and of new ones.

torch's modules keep notes from one pass to the next, and a new process has none.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from spotrun.wire import How
from spotrun_trainer import Run
from spotrun_trainer.loop.evaluation.evaluate import evaluating
from tests.unit.trainer.run.elastic import Jobs, die, this_is
from tests.unit.trainer.run.fully_sharded import FullySharded, train_fully_sharded
from tests.unit.trainer.run.scripts import Nuisance, dataset
from tests.unit.trainer.run.sharded import FOUR, Both, complete_the_copy
from tests.unit.trainer.run.test_fully_sharded import assert_undisturbed
from tests.unit.trainer.run.test_worlds import DieInForward, Hold

PLAN = FullySharded(in_blocks=True)


def after_an_evaluation(_run: Run, _step: int, _count: int) -> None:
    """Each step is followed by one, if the plan says so."""


def after_a_look(run: Run, _step: int, count: int) -> None:
    """A script looks at what the model says, and goes no way back: in the step itself."""
    if count == -1:
        model = next(one for one in run._context.things if isinstance(one, nn.Module))
        with torch.no_grad(), evaluating(model):
            model(dataset().tensors[0][:4])


@pytest.mark.parametrize("looks", [after_an_evaluation, after_a_look])
def test_one_who_has_trained_and_a_new_one_make_up_a_copy(
    jobs: Jobs, tmp_path: Path, looks: Nuisance
) -> None:
    """torch notes each forward pass, and fetches ahead by its notes in the next backward pass.

    A process that joins has none; so if the others still had theirs, mates would wait for each
    other in different collectives.
    """
    death, evaluates = DieInForward("b1"), looks is after_an_evaluation
    nuisance = Both(Both(death, Hold(tmp_path, at=5)), looks)
    plan = replace(PLAN, evaluates=evaluates, nuisance=nuisance)
    job = jobs.start(train_fully_sharded, plan, workers=FOUR)
    job.until_dead("b1")
    job.publish(How.ABORT, "a0", "a1")
    job.until((tmp_path / "held").exists)
    mixed = ("a0", "n1", "b0", "a1")
    job.bring_in(How.BOUNDARY, *mixed)
    (tmp_path / "go").touch()
    assert_undisturbed(plan, job, *mixed)


@dataclass(frozen=True)
class ErrAmidForward:
    """A worker dies amid a forward pass; its mate's script does not take the numbers that follow.

    So the pass of the mate ends halfway, with some of the model's parts fetched.
    """

    lost: str
    mate: str

    def __call__(self, run: Run, step: int, count: int) -> None:
        if (step, count) != (3, 0):
            return
        model: Any = next(one for one in run._context.things if isinstance(one, nn.Module))
        blocks = list(model.blocks.children())
        if this_is(self.lost):
            blocks[0].register_forward_hook(lambda *_: die())
        if this_is(self.mate):
            blocks[1].register_forward_pre_hook(lambda *_: self._take(run))

    def _take(self, run: Run) -> None:
        replica = run._context.group.replica
        if replica is not None and replica.lost:
            raise ArithmeticError("the script does not take such numbers")


def test_one_whose_forward_pass_ended_halfway_goes_on_with_a_new_mate(
    jobs: Jobs, tmp_path: Path
) -> None:
    nuisance = Both(ErrAmidForward("b1", "b0"), Hold(tmp_path, at=5))
    plan = replace(PLAN, nuisance=nuisance)
    job = jobs.start(train_fully_sharded, plan, workers=FOUR)
    assert_undisturbed(plan, job, *complete_the_copy(job, "b1", tmp_path))
