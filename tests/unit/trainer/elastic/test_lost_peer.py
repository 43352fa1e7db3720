"""A process of the world dies: whoever is left has applied all of a step, or nothing of it."""

import os
import signal
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from spotrun_trainer.elastic.pending_collectives import Pending
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.run import Run
from tests.support.processes.trainer_world import run_alone, run_world
from tests.unit.trainer.run.scripts import (
    Nuisance,
    Plan,
    kill_in_forward,
    train,
    train_until_it_breaks,
)

PLAN = Plan(total=4, with_batch_norm=True)
NOTICED = ("a peer is gone", "the connections of this world have ended")
"""The messages of gloo, or of a look at the connections where gloo misses a loss."""


@dataclass(frozen=True)
class KillInCollective:
    """The last rank dies at its n-th sum of a step, before it takes part or right after."""

    number: int
    takes_part: bool

    def __call__(self, run: Run, step: int, count: int) -> None:
        if (run.rank, step, count) != (run.world_size - 1, 3, -1):
            return
        whole, seen = Group.all_reduce, 0

        def all_reduce(group: Group, tensor: Tensor) -> Pending:
            nonlocal seen
            seen += 1
            if seen < self.number:
                return whole(group, tensor)
            if self.takes_part:
                whole(group, tensor)
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("dead")

        Group.all_reduce = all_reduce  # type: ignore[method-assign,assignment]


@pytest.mark.parametrize(
    "nuisance",
    [
        kill_in_forward,
        KillInCollective(1, takes_part=False),
        KillInCollective(1, takes_part=True),
        KillInCollective(2, takes_part=False),
        KillInCollective(2, takes_part=True),
    ],
    ids=["forward", "before reduction", "in reduction", "before commit", "in commit"],
)
def test_survivors_have_all_of_a_step_or_nothing_of_it(nuisance: Nuisance) -> None:
    after = [run_alone(train, replace(PLAN, total=total)).value.weights for total in (2, 3)]
    expected = {2 + index: weights for index, weights in enumerate(after)}
    *survivors, dead = run_world(3, train_until_it_breaks, replace(PLAN, nuisance=nuisance))
    assert dead.exit_code == -signal.SIGKILL
    for one in survivors:
        steps, error, weights = one.value
        assert error.startswith(NOTICED)
        assert steps in expected
        torch.testing.assert_close(weights, expected[steps], rtol=1e-4, atol=1e-4)
