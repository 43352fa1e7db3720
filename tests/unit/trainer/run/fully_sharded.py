"""A training whose model torch divides among the processes of each copy (FSDP2)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from spotrun_trainer import Parallel, Run
from spotrun_trainer.elastic.pending_collectives import Pending
from spotrun_trainer.elastic.process_group import Group
from tests.unit.trainer.run.elastic import die, this_is
from tests.unit.trainer.run.scripts import CLASSES, FEATURES, Nuisance, Trained, dataset
from tests.unit.trainer.run.sharded import mean_loss


@dataclass(frozen=True)
class FullySharded:
    """A training, and the number of processes that hold a copy of the model."""

    shard: int = 2
    total: int = 6
    clip: float | None = 0.5
    global_batch: int = 16
    checkpoint: str | None = None
    every: float | str = "auto"
    evaluates: bool = False
    nuisance: Nuisance | None = None


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
    losses = []
    for step in run.steps(
        dataset(), global_batch=plan.global_batch, microbatch=2, total=plan.total, num_workers=0
    ):
        with step:
            for count, (features, classes) in enumerate(step):
                loss = functional.cross_entropy(model(features), classes, reduction="sum")
                if plan.nuisance:
                    plan.nuisance(run, step.number, count)
                step.backward(loss, weight=len(classes))
            if plan.nuisance:
                plan.nuisance(run, step.number, -1)
            step.update(optimizer, clip=plan.clip)
            losses.append(step.loss.item())
        if plan.evaluates and run.every(1):
            losses.append(run.evaluate(model, dataset(), mean_loss, microbatch=5))
    return Trained(losses, own_part(model))


def own_part(model: nn.Module) -> dict[str, Tensor]:
    """The part of each tensor that this process holds."""
    return {name: getattr(one, "_local_tensor", one) for name, one in model.state_dict().items()}


@dataclass(frozen=True)
class DieAmid:
    """A worker dies at the n-th collective after a microbatch of step 3, which FSDP2 may begin."""

    worker: str
    count: int
    number: int
    takes_part: bool

    def __call__(self, _run: Run, step: int, count: int) -> None:
        if not this_is(self.worker) or (step, count) != (3, self.count):
            return
        begin, seen = Group._begin, 0

        def dying(group: Group, collective: object, tensor: Tensor) -> Pending:
            nonlocal seen
            seen += 1
            if seen < self.number:
                return begin(group, collective, tensor)  # type: ignore[arg-type]
            if self.takes_part:
                begin(group, collective, tensor).wait()  # type: ignore[arg-type]
            die()
            raise AssertionError

        Group._begin = dying  # type: ignore[method-assign,assignment]
