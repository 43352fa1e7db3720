"""The training of bench/chaos.py: a small network that writes a line with a checksum per step.

In deterministic mode a step ends with the same bits, whatever happened before it, so a line can be
compared with the line of an undisturbed training. If torch divides the model (`shard`), they are
equal only up to rounding. Then it computes with 64 bits, in which rounding is far smaller than the
effect of one sample, and a line also has the loss and a few sums over weights. `samples` in a line
is a sum over the samples of the step, with a whole number for each: it shows a missing or repeated
sample. A worker kills itself at a point that its order (a file) names, so that even moments of
microseconds are hit.
"""

import faulthandler
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset
from typing_extensions import override

from bench import chaos_links
from spotrun_trainer import Parallel, Run
from spotrun_trainer.elastic.backends import nccl
from spotrun_trainer.elastic.membership import Membership
from spotrun_trainer.elastic.replica_group import ReplicaGroup
from spotrun_trainer.loop import state_sync
from spotrun_trainer.parallel.local import local
from spotrun_trainer.state.tracked import Tracked
from spotrun_trainer.step.deterministic_reduce import TreeGradients
from spotrun_trainer.step.gradients import BucketedGradients, LocalGradients
from tests.support.gpu import nccl_on_host

SAMPLES, FEATURES, CLASSES = 960, 8, 3
GLOBAL_BATCH, MICROBATCH = 16, 2
EVALUATE_EVERY = 3
POINTS = ("reduce", "reduced", "commit", "committed", "apply", "applied")
"""The points at which a worker can be ordered to die."""
POINTS_IN_PASSES = ("gather", "gathered", "scatter", "scattered")
"""Further points if torch divides the model: its own collectives, during forward and backward."""


@dataclass(frozen=True)
class Alone:
    """The work of an undisturbed training."""

    steps: int
    evaluated: frozenset[int]  # steps after which it evaluates


class Seen(nn.Module):
    """A running mean, as in batch norm, but without a division by it.

    Batch norm over two samples nearly gives only signs: rounding would grow tenfold every 50 steps.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.mean: Tensor
        self.register_buffer("mean", torch.zeros(features))

    @override
    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean += 0.1 * (x.detach().mean(0) - self.mean)
        return x


class Stack(nn.Module):
    """Two blocks, which torch divides one by one."""

    def __init__(self, shard: int) -> None:
        super().__init__()
        hidden = nn.Linear(FEATURES, 16, bias=False)
        norm = nn.BatchNorm1d(16) if shard == 1 else Seen(16)
        first = nn.Sequential(hidden, norm, nn.Dropout(0.2), nn.Tanh())
        self.blocks = nn.ModuleList([first, nn.Linear(16, CLASSES)])

    @override
    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def train(folder: Path, alone: Alone | None, pause_seconds: float = 0.0, shard: int = 1) -> None:
    """Train under an operator without end, or alone. Each step takes `pause_seconds` longer.

    `shard` processes together hold a copy of the model.
    """
    # Each process of a copy always keeps its part.
    part = int(os.environ.get("RANK", "0")) % shard
    worker = os.environ.get("SPOTRUN_WORKER", f"alone{part}")
    with (folder / f"{worker}.stacks").open("w") as stacks:
        faulthandler.register(signal.SIGUSR1, stacks)  # for a burst that gets stuck
        chaos_links.obey(folder, worker)
        with (folder / f"{worker}.jsonl").open("a", buffering=1) as lines:
            for line in _trained(folder, alone, pause_seconds, shard):
                lines.write(json.dumps(line | ({"part": part} if shard > 1 else {})) + "\n")


def train_over_nccl(
    folder: Path, alone: Alone | None, pause_seconds: float = 0.0, shard: int = 1
) -> None:
    """Train as on GPUs, over a stand-in for NCCL, and continue after losses."""
    nccl_on_host.pretend()
    os.environ[nccl.VARIABLE] = "1"
    train(folder, alone, pause_seconds, shard)


def _trained(
    folder: Path, alone: Alone | None, pause_seconds: float, shard: int
) -> Iterator[dict[str, Any]]:
    """Train; yield a line for each step and each evaluation."""
    aim(folder)
    run, model = _begun(shard)
    # With the default, a gradient of pure rounding would become a whole step.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-3)
    run.track(model=model, optimizer=optimizer)
    tracked = Tracked(run.mesh if shard > 1 else None)
    tracked.add("model", model)
    tracked.add("optimizer", optimizer)
    data, total = dataset(torch.float64 if shard > 1 else None), alone.steps if alone else None
    for step in run.steps(
        data,
        global_batch=GLOBAL_BATCH,
        microbatch=MICROBATCH,
        total=total,
        num_workers=0,
        sums=["samples"],
    ):
        with step:
            for x, y in step:
                run.sum(samples=(x.double() * 2**20).round().sum())
                loss = functional.cross_entropy(model(x), y, reduction="sum")
                step.backward(loss, weight=len(y))
            time.sleep(pause_seconds)
            step.update(optimizer, clip=1.0)
            line: dict[str, Any] = {"step": step.number, "samples": step.sums["samples"].item()}
            if shard > 1:
                line["loss"] = step.loss.item()
        if run.every(1):
            if shard > 1:
                weights = [local(weight).detach() for weight in model.parameters()]
                line["weights"] = [f(one).item() for one in weights for f in (sum_of, norm_of)]
            yield line | {"sum": state_sync.checksum(tracked)}
        if run.step in alone.evaluated if alone else run.every(EVALUATE_EVERY):
            mean = run.evaluate(model, data, evaluate, microbatch=64)
            # A process that was away evaluates its old state, and then gets the others' state.
            yield {"step": run.step, "mean": mean}


def _begun(shard: int) -> tuple[Run, nn.Module]:
    run = Run(3, parallel=Parallel(shard=shard)) if shard > 1 else Run(3, deterministic=True)
    torch.manual_seed(3)
    model = Stack(shard).double() if shard > 1 else Stack(shard)
    return run, run.prepare(model, shard=shard > 1)


def sum_of(weight: Tensor) -> Tensor:
    """Return a sum in which numbers count by their position, so that a swap changes it."""
    places = torch.arange(1, weight.numel() + 1)
    return torch.sum(weight.flatten() * places)


def norm_of(weight: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(weight)
    return norm


def dataset(dtype: torch.dtype | None = None) -> TensorDataset:
    generator = torch.Generator().manual_seed(5)
    features = torch.randn(SAMPLES, FEATURES, generator=generator).to(dtype)
    return TensorDataset(features, features[:, :CLASSES].argmax(1))


def evaluate(model: nn.Module, batch: list[Tensor]) -> tuple[Tensor, int]:
    x, y = batch
    return functional.cross_entropy(model(x), y, reduction="sum"), len(y)


def aim(folder: Path) -> None:
    """Let this process die at the point that is ordered, or a collective of it end early."""
    worker = os.environ.get("SPOTRUN_WORKER", "alone")
    order, spoiled = folder / f"{worker}.order", folder / f"{worker}.early"

    def at(point: str) -> None:
        if spoiled.exists():
            nccl_on_host.NcclOnHost.whole["collective"] = int(spoiled.read_text())
            spoiled.unlink()
        try:
            ordered = order.read_text()
        except FileNotFoundError:
            return
        if ordered == point:
            order.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    for kind in (TreeGradients, BucketedGradients, LocalGradients):
        between(kind, "reduce", at, "reduce", "reduced")
    for name in ("all_gather_single", "_allgather_base"):  # of torch's releases
        between(ReplicaGroup, name, at, "gather", "gathered")
    for name in ("reduce_scatter_single", "_reduce_scatter_base"):
        between(ReplicaGroup, name, at, "scatter", "scattered")
    between(Membership, "commit", at, "commit", "committed")
    between(torch.optim.AdamW, "step", at, "apply", "applied")


def between(kind: type, name: str, at: Callable[[str], None], before: str, after: str) -> None:
    whole: Callable[..., object] = getattr(kind, name)

    def watched(*args: object, **kwargs: object) -> object:
        at(before)
        result = whole(*args, **kwargs)
        at(after)
        return result

    setattr(kind, name, watched)
