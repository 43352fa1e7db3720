"""A training whose model torch divides among the processes of each copy (FSDP2)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from typing_extensions import override

from spotrun_trainer import Parallel, Run
from tests.unit.trainer.run.scripts import CLASSES, FEATURES, Trained
from tests.unit.trainer.run.sharded import SharedModel, losses_of


@dataclass(frozen=True)
class FullySharded(SharedModel):
    """A training, and the number of processes that hold a copy of the model."""

    shard: int = 2
    clip: float | None = 0.5


class Blocks(nn.Module):
    """A sequence of blocks, as models of language are, one of which is too small for two parts."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Linear(FEATURES, 8)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(3))
        self.last = nn.Linear(8, CLASSES)  # 3 rows: its parts differ in size
        self.scale = nn.Parameter(torch.ones(1))  # one part of it is empty
        self.register_buffer("seen", torch.zeros(()))
        self.seen: Tensor

    @override
    def forward(self, features: Tensor) -> Tensor:
        if self.training:
            self.seen += features.mean()
        hidden = self.first(features)
        for block in self.blocks:
            hidden = block(hidden)
        result: Tensor = self.last(hidden) * self.scale
        return result


def train_fully_sharded(plan: FullySharded, before: Callable[[], None] = lambda: None) -> Trained:
    """The loop as users write it; the weights are whole ones."""
    before()
    run = Run(1, parallel=Parallel(shard=plan.shard), checkpoint=plan.checkpoint, every=plan.every)
    model = run.prepare(Blocks(), shard=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    run.track(model=model, optimizer=optimizer)
    return Trained(losses_of(run, model, optimizer, plan), own_part(model))


def own_part(model: nn.Module) -> dict[str, Tensor]:
    """The part of each tensor that this process holds."""
    return {name: getattr(one, "_local_tensor", one) for name, one in model.state_dict().items()}
