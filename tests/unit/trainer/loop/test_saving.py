"""The orders that a checkpoint answers, as they are reported with it."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch

from spotrun_trainer.checkpoint import Saved
from spotrun_trainer.loop.saving.save_schedule import SaveSchedule
from spotrun_trainer.loop.saving.saving import Saving
from spotrun_trainer.step.vote import StepVote


class Ordering:
    """A training with a place for checkpoints, to which an order comes during each save."""

    def __init__(self) -> None:
        self.num_orders = 0
        self.begun = ""
        self.reported: dict[str, Any] = {}

    def save(self, name: str, *_: Any, **__: Any) -> None:
        self.begun = name
        self.num_orders += 1

    def finished(self) -> Saved:
        return Saved(self.begun, 1, 0.0, 0.0)

    def context(self) -> Any:
        return SimpleNamespace(
            place=None,
            rank_info=SimpleNamespace(world_number=1, elastic=True),
            env={},
            step=3,
            checkpoints=self,
            orders=lambda: self.num_orders,
            acknowledged=lambda: None,
            reporter=SimpleNamespace(update=self.reported.update),
            meter=SimpleNamespace(span=lambda _: nullcontext()),
            tracked=SimpleNamespace(flatten=lambda: None, parameters=dict),
            group=SimpleNamespace(rank=0, size=1),
            device=torch.device("cpu"),
        )


def test_an_order_that_comes_while_a_checkpoint_is_written_is_not_answered_by_it() -> None:
    training = Ordering()
    context = training.context()
    saving = Saving(context, SaveSchedule(60.0))
    found = []
    for context.step in (3, 4):
        saving.begin({})
        saving.look(0.1, StepVote())
        found.append((training.reported["checkpoint"], training.reported["checkpoint_orders"]))
    assert found == [("step-3.g1", 0), ("step-4.g1", 1)]
