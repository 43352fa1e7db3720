"""The training of bench/chaos.py: a little network whose every step leaves a line with a checksum.

In deterministic mode a step ends with the same bits whatever happened before it, so a line can be
compared with the line of an undisturbed training. A worker kills itself at a point that its order
(a file) names, which hits a moment of microseconds for certain.
"""

import faulthandler
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from bench import chaos_links
from spotrun_trainer import Run
from spotrun_trainer.elastic.membership import Membership
from spotrun_trainer.loop import state_sync
from spotrun_trainer.state.tracked import Tracked
from spotrun_trainer.step.deterministic_reduce import TreeGradients

SAMPLES, FEATURES, CLASSES = 960, 8, 3
GLOBAL_BATCH, MICROBATCH = 16, 2
EVALUATE_EVERY = 3
POINTS = ("reduce", "reduced", "commit", "committed", "apply", "applied")
"""The points at which a worker can be ordered to die."""


@dataclass(frozen=True)
class Alone:
    """The work of a training that nobody disturbs."""

    steps: int
    evaluated: frozenset[int]  # steps after which it evaluates


def train(folder: Path, alone: Alone | None, pause_seconds: float = 0.0) -> None:
    """Train under an operator, for ever; or alone. A step takes so much longer."""
    worker = os.environ.get("SPOTRUN_WORKER", "alone")
    with (folder / f"{worker}.stacks").open("w") as stacks:
        faulthandler.register(signal.SIGUSR1, stacks)  # for a burst that gets stuck
        chaos_links.obey(folder, worker)
        _train(folder, worker, alone, pause_seconds)


def _train(folder: Path, worker: str, alone: Alone | None, pause_seconds: float) -> None:
    aim(folder)
    run = Run(seed=3, deterministic=True)
    torch.manual_seed(3)
    model = run.prepare(
        nn.Sequential(
            nn.Linear(FEATURES, 16, bias=False),
            nn.BatchNorm1d(16),
            nn.Dropout(0.2),
            nn.Tanh(),
            nn.Linear(16, CLASSES),
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run.track(model=model, optimizer=optimizer)
    tracked = Tracked()
    tracked.add("model", model)
    tracked.add("optimizer", optimizer)
    data, total = dataset(), alone.steps if alone else None
    with (folder / f"{worker}.jsonl").open("a", buffering=1) as lines:
        for step in run.steps(
            data, global_batch=GLOBAL_BATCH, microbatch=MICROBATCH, total=total, num_workers=0
        ):
            with step:
                for x, y in step:
                    loss = functional.cross_entropy(model(x), y, reduction="sum")
                    step.backward(loss, weight=len(y))
                time.sleep(pause_seconds)
                step.update(optimizer, clip=1.0)
            if run.every(1):
                found = state_sync.checksum(tracked)
                lines.write(json.dumps({"step": step.number, "sum": found}) + "\n")
            if run.step in alone.evaluated if alone else run.every(EVALUATE_EVERY):
                mean = run.evaluate(model, data, evaluate, microbatch=64)
                # Who was away meanwhile evaluates what it has, and then gets the others' state.
                lines.write(json.dumps({"step": run.step, "mean": round(mean, 9)}) + "\n")


def dataset() -> TensorDataset:
    generator = torch.Generator().manual_seed(5)
    features = torch.randn(SAMPLES, FEATURES, generator=generator)
    return TensorDataset(features, features[:, :CLASSES].argmax(1))


def evaluate(model: nn.Module, batch: list[Tensor]) -> tuple[Tensor, int]:
    x, y = batch
    return functional.cross_entropy(model(x), y, reduction="sum"), len(y)


def aim(folder: Path) -> None:
    """Let this process die where it is ordered to."""
    order = folder / f"{os.environ.get('SPOTRUN_WORKER', 'alone')}.order"

    def at(point: str) -> None:
        try:
            ordered = order.read_text()
        except FileNotFoundError:
            return
        if ordered == point:
            order.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    between(TreeGradients, "reduce", at, "reduce", "reduced")
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
