"""Small trainings that processes of a world run, and the same by hand in plain PyTorch."""

import hashlib
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from spotrun_trainer import Run, bf16_state
from spotrun_trainer.data.order.shuffle import Order
from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.loop.dealing import Balance
from spotrun_trainer.step.reduce.compression import Compression, Name

SAMPLES, FEATURES, CLASSES = 96, 6, 3


Nuisance = Callable[[Run, int, int], None]
"""Called in each microbatch with the step and the microbatches so far, -1 before the update."""


@dataclass(frozen=True)
class Plan:
    """A plan of a training: what to train, and how."""

    total: int = 5
    global_batch: int = 16
    microbatch: int = 2
    seed: int = 1
    deterministic: bool = False
    with_batch_norm: bool = False
    with_dropout: bool = False
    with_adam: bool = True  # which does not mind if gradients are scaled
    with_bf16_state: bool = False
    dtype: torch.dtype = torch.float32
    clip: float | None = None
    compress: Name | Compression | None = None
    checkpoint: str | None = None
    every: float | str = "auto"
    nuisance: Nuisance | None = None
    balance: Balance = "even"
    check_devices: int | None = None
    check_speed: bool = False


@dataclass(frozen=True)
class Trained:
    """The result of a training."""

    losses: list[float]
    weights: dict[str, Tensor]

    @property
    def digest(self) -> str:
        """Equal if all bits are."""
        flat = [value.contiguous().flatten() for value in self.weights.values()]
        content = b"".join(value.view(torch.uint8).numpy().tobytes() for value in flat)
        return hashlib.sha256(content).hexdigest()


def dataset() -> TensorDataset:
    generator = torch.Generator().manual_seed(7)
    features = torch.randn(SAMPLES, FEATURES, generator=generator)
    classes = torch.randint(0, CLASSES, (SAMPLES,), generator=generator)
    return TensorDataset(features, classes)


def network(plan: Plan) -> nn.Module:
    torch.manual_seed(plan.seed)
    middle: list[nn.Module] = [nn.BatchNorm1d(8)] if plan.with_batch_norm else []
    if plan.with_dropout:
        middle.append(nn.Dropout(0.3))
    # A bias before batch norm would have no gradient but noise.
    first = nn.Linear(FEATURES, 8, bias=not plan.with_batch_norm)
    layers = [first, *middle, nn.Tanh(), nn.Linear(8, CLASSES)]
    return nn.Sequential(*layers).to(plan.dtype)


def optimizer_of(
    plan: Plan, model: nn.Module
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    optimizer: torch.optim.Optimizer
    if plan.with_adam:
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    if plan.with_bf16_state:
        bf16_state(optimizer)
    return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)


def train(
    plan: Plan, keep: Callable[[tuple[Run, nn.Module]], None] = lambda _made: None
) -> Trained:
    """The loop as users write it."""
    run = Run(
        plan.seed,
        deterministic=plan.deterministic,
        checkpoint=plan.checkpoint,
        every=plan.every,
        compress=plan.compress,
        balance=plan.balance,
        check_devices=plan.check_devices,
        check_speed=plan.check_speed,
    )
    model = run.prepare(network(plan))
    optimizer, schedule = optimizer_of(plan, model)
    run.track(model=model, optimizer=optimizer, schedule=schedule)
    keep((run, model))
    losses = []
    for step in run.steps(
        dataset(),
        global_batch=plan.global_batch,
        microbatch=plan.microbatch,
        total=plan.total,
        num_workers=0,
    ):
        with step:
            for count, (features, classes) in enumerate(step):
                loss = functional.cross_entropy(
                    model(features.to(plan.dtype)).float(), classes, reduction="sum"
                )
                if plan.nuisance:
                    plan.nuisance(run, step.number, count)
                step.backward(loss, weight=len(classes))
            if plan.nuisance:
                plan.nuisance(run, step.number, -1)
            step.update(optimizer, clip=plan.clip, schedule=schedule)
            losses.append(step.loss.item())
            run.log(loss=step.loss, phase="training")
    return Trained(losses, {name: value.cpu() for name, value in model.state_dict().items()})


def train_by_hand(plan: Plan) -> Trained:
    """The same without spotrun: one process, one batch per step."""
    features, classes = dataset().tensors
    order = Order(SAMPLES, seed=plan.seed, shuffle=True)
    model = network(plan)
    optimizer, schedule = optimizer_of(plan, model)
    losses = []
    for number in range(plan.total):
        first = number * plan.global_batch
        batch = [order.sample(first + one).index for one in range(plan.global_batch)]
        loss = functional.cross_entropy(model(features[batch].to(plan.dtype)), classes[batch])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if plan.clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), plan.clip)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return Trained(losses, {name: value.cpu() for name, value in model.state_dict().items()})


def train_until_it_breaks(plan: Plan) -> tuple[int, str, dict[str, Tensor]]:
    """Steps done, what ended them, and the weights at that moment."""
    kept: list[tuple[Run, nn.Module]] = []
    try:
        train(plan, kept.append)
    except PeerLostError as error:
        run, model = kept[0]
        weights = {name: value.cpu() for name, value in model.state_dict().items()}
        return run.step, str(error), weights
    raise AssertionError("it did not break")


def kill_in_forward(run: Run, step: int, count: int) -> None:
    """The last process dies in the third step."""
    if (run.rank, step, count) == (run.world_size - 1, 3, 1):
        os.kill(os.getpid(), signal.SIGKILL)
