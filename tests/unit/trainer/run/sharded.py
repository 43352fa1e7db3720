"""A training whose model is held by several processes together, each with a part of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional
from typing_extensions import override

from spotrun.wire import How
from spotrun_trainer import Run
from spotrun_trainer.elastic.membership import Membership
from spotrun_trainer.loop.dealing import Balance
from tests.unit.trainer.run.elastic import Job, die, this_is
from tests.unit.trainer.run.scripts import CLASSES, FEATURES, Nuisance, Trained, dataset

HIDDEN = 8
FOUR = ("a0", "a1", "b0", "b1")  # workers of two copies of a model in two parts each
EIGHT = tuple(f"{copy}{part}" for copy in "ab" for part in range(4))  # in four parts


@dataclass(frozen=True)
class SharedModel:
    """A training whose model several processes hold together."""

    total: int = 6
    global_batch: int = 16
    microbatch: int = 2
    clip: float | None = None
    checkpoint: str | None = None
    every: float | str = "auto"
    evaluates: bool = False
    nuisance: Nuisance | None = None


@dataclass(frozen=True)
class Sharded(SharedModel):
    """A training, and the number of processes for each copy of the model."""

    shards: int = 2
    deterministic: bool = True
    balance: Balance = "even"


class SumOverParts(torch.autograd.Function):
    """Adds up what the parts of a layer have computed; the loss that follows is the same on all."""

    @staticmethod
    @override
    def forward(_context: Any, part: Tensor) -> Tensor:
        whole = part.clone()
        distributed.all_reduce(whole)
        return whole

    @staticmethod
    @override
    def backward(_context: Any, *gradients: Tensor) -> Tensor:
        return gradients[0]


class Part(nn.Module):
    """Some of the hidden units of a network with one hidden layer."""

    def __init__(self, shard: int, shards: int) -> None:
        super().__init__()
        torch.manual_seed(1)
        first, second = torch.randn(HIDDEN, FEATURES), torch.randn(CLASSES, HIDDEN)
        units = slice(shard * HIDDEN // shards, (shard + 1) * HIDDEN // shards)
        self.first = nn.Parameter(first[units].clone())
        self.second = nn.Parameter(second[:, units].clone())

    @override
    def forward(self, features: Tensor) -> Tensor:
        part = torch.tanh(features @ self.first.T) @ self.second.T
        return SumOverParts.apply(part) if distributed.is_initialized() else part


def train_part(plan: Sharded, before: Callable[[], None] = lambda: None) -> Trained:
    """The loop as users write it; the weights are those of this process's part."""
    before()
    run = Run(
        1,
        deterministic=plan.deterministic,
        shards=plan.shards,
        checkpoint=plan.checkpoint,
        every=plan.every,
        balance=plan.balance,
    )
    shard = distributed.get_rank() if distributed.is_initialized() else 0
    model = run.prepare(Part(shard, plan.shards))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    run.track(model=model, optimizer=optimizer)
    return Trained(losses_of(run, model, optimizer, plan), model.state_dict())


def losses_of(
    run: Run,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    plan: SharedModel,
    schedule: Callable[[], Any] | None = None,
) -> list[float]:
    """Train, and return the losses of the steps and evaluations that this process was there for.

    `schedule` makes that of a pipeline.
    """
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
                if schedule is None:
                    loss = summed(model(features), classes)
                    if plan.nuisance:
                        plan.nuisance(run, step.number, count)
                    step.backward(loss, weight=len(classes))
                    continue
                step.pipeline(schedule, features, target=classes, weight=len(classes))
                if plan.nuisance:
                    plan.nuisance(run, step.number, count)
            if plan.nuisance:
                plan.nuisance(run, step.number, -1)
            step.update(optimizer, clip=plan.clip)
            assert step.sums["seen"].item() == plan.global_batch
            losses.append(step.loss.item())
        if plan.evaluates and run.every(1):
            mean = run.evaluate(model, dataset(), mean_loss, microbatch=5, pipeline=schedule)
            losses.append(mean)
    return losses


def summed(result: Tensor, classes: Tensor) -> Tensor:
    return functional.cross_entropy(result, classes, reduction="sum")


def mean_loss(model: nn.Module, batch: list[Tensor]) -> Tensor:
    return functional.cross_entropy(model(batch[0]), batch[1])


def leave_to_the_other_copy(
    job: Job, lost: str, workers: Sequence[str] = FOUR
) -> tuple[list[str], str]:
    """Let the copy of which nobody was lost go on; return its workers, and the lost one's mate."""
    job.until_dead(lost)
    others = [worker for worker in workers if worker[0] != lost[0]]
    job.publish(How.ABORT, *others)
    return others, lost[0] + str(int(lost[1]) ^ 1)


def complete_the_copy(job: Job, lost: str, held: Path, workers: Sequence[str] = FOUR) -> list[str]:
    """Bring in a worker for one lost of two copies in `held`'s Hold; return all that are there."""
    leave_to_the_other_copy(job, lost, workers)
    job.until((held / "held").exists)
    again = [f"n{lost[1]}" if worker == lost else worker for worker in workers]
    job.bring_in(How.BOUNDARY, *again)
    (held / "go").touch()
    return again


def assert_losses_among(losses: Sequence[float], expected: Sequence[float]) -> None:
    """Each loss is one of a step that the process was there for."""
    assert losses
    for loss in losses:
        assert min(abs(loss - each) for each in expected) < 1e-5


def whole(parts: Sequence[Trained]) -> dict[str, Tensor]:
    """The weights of the model, put together from all its parts."""
    return {
        "first": torch.cat([part.weights["first"] for part in parts], dim=0),
        "second": torch.cat([part.weights["second"] for part in parts], dim=1),
    }


@dataclass(frozen=True)
class Both:
    """Two nuisances, one after the other."""

    first: Nuisance
    second: Nuisance

    def __call__(self, run: Run, step: int, count: int) -> None:
        self.first(run, step, count)
        self.second(run, step, count)


@dataclass(frozen=True)
class DieBeforeCommit:
    """A worker dies right before its n-th commit."""

    worker: str
    number: int

    def __call__(self) -> None:
        commit, number = Membership.commit, 0

        def dying(worlds: Membership, numbers: Tensor) -> None:
            nonlocal number
            number += 1
            if this_is(self.worker) and number == self.number:
                die()
            commit(worlds, numbers)

        Membership.commit = dying  # type: ignore[method-assign,assignment]
