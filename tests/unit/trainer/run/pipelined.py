"""A training whose layers are dealt to the stages of a pipeline."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from spotrun_trainer import Parallel, Run
from tests.unit.trainer.run.scripts import CLASSES, FEATURES, Trained, dataset
from tests.unit.trainer.run.sharded import SharedModel


@dataclass(frozen=True)
class Pipelined(SharedModel):
    """A training, and the stages of each copy."""

    stages: int = 2
    schedule: str = "Schedule1F1B"
    microbatch: int = 4
    clip: float | None = 0.5
    forward_seconds: float = 0  # that the first stage takes at least


class Layers(nn.Module):
    """Some of the layers of a model, named as in the whole."""

    def __init__(self, stage: int, plan: Pipelined) -> None:
        super().__init__()
        self.seconds = plan.forward_seconds if stage == 0 else 0
        torch.manual_seed(1)
        layers: dict[str, nn.Module] = {"first": nn.Linear(FEATURES, 8)}
        layers |= {f"block{n}": nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for n in range(3)}
        layers["last"] = nn.Linear(8, CLASSES)
        size = -(-len(layers) // plan.stages)
        own = list(layers.items())[stage * size : (stage + 1) * size]
        self.layers = nn.ModuleDict(dict(own))

    @override
    def forward(self, hidden: Tensor) -> Tensor:
        time.sleep(self.seconds)
        for layer in self.layers.values():
            hidden = layer(hidden)
        return hidden


def summed(result: Tensor, classes: Tensor) -> Tensor:
    return functional.cross_entropy(result, classes, reduction="sum")


def train_pipelined(plan: Pipelined, before: Callable[[], None] = lambda: None) -> Trained:
    """The loop as users write it; the weights are those of this process's stage."""
    before()
    run = Run(
        1, parallel=Parallel(pipeline=plan.stages), checkpoint=plan.checkpoint, every=plan.every
    )
    stage = run.mesh.get_local_rank() if plan.stages > 1 else 0
    model = run.prepare(Layers(stage, plan))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    run.track(model=model, optimizer=optimizer)

    def schedule() -> Any:
        from torch.distributed import pipelining  # noqa: PLC0415 - takes a second

        own = pipelining.PipelineStage(model, stage, plan.stages, run.device)
        kind = getattr(pipelining, plan.schedule)
        return kind(own, n_microbatches=4, loss_fn=summed, scale_grads=False)

    losses = []
    for step in run.steps(
        dataset(),
        global_batch=plan.global_batch,
        microbatch=plan.microbatch,
        total=plan.total,
        num_workers=0,
        sums=["seen"],
    ):
        with step:
            for count, (features, classes) in enumerate(step):
                run.sum(seen=len(classes))
                if plan.stages > 1:
                    step.pipeline(schedule, features, target=classes, weight=len(classes))
                else:
                    step.backward(summed(model(features), classes), weight=len(classes))
                if plan.nuisance:
                    plan.nuisance(run, step.number, count)
            if plan.nuisance:
                plan.nuisance(run, step.number, -1)
            step.update(optimizer, clip=plan.clip)
            assert step.sums["seen"].item() == plan.global_batch
            losses.append(step.loss.item())
    return Trained(losses, model.state_dict())
