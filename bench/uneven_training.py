"""A training in which some workers are slower, and which records the duration of each step.

Slow means here that a worker sleeps longer in each microbatch: the speed is emulated, and other
work on this machine changes it little.
"""

import os
import time
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from spotrun_trainer import Run
from spotrun_trainer.loop.dealing import Balance

SAMPLES, FEATURES, CLASSES = 4096, 8, 3
MICROBATCH = 2


@dataclass(frozen=True)
class Uneven:
    """A training, and the speed of its workers."""

    seconds: tuple[float, ...]  # for a microbatch, by rank; empty: at full speed
    microbatches: int
    total: int
    balance: Balance = "even"
    deterministic: bool = False


@dataclass(frozen=True)
class Noted:
    """The samples and times of one process."""

    samples: list[list[int]]  # by step
    seconds: list[float]  # from one update to the next
    weights: bytes


def dataset() -> TensorDataset:
    """Return samples, each with its number."""
    generator = torch.Generator().manual_seed(7)
    features = torch.randn(SAMPLES, FEATURES, generator=generator)
    classes = torch.randint(0, CLASSES, (SAMPLES,), generator=generator)
    return TensorDataset(torch.arange(SAMPLES), features, classes)


def train(plan: Uneven) -> Noted:
    """Train, and record the samples and the time of each step."""
    run = Run(1, deterministic=plan.deterministic, balance=plan.balance)
    model = run.prepare(nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, CLASSES)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    run.track(model=model, optimizer=optimizer)
    pace = plan.seconds[int(os.environ["RANK"])] if plan.seconds else 0.0
    samples: list[list[int]] = []
    updated = [time.perf_counter()]
    for step in run.steps(
        dataset(),
        global_batch=plan.microbatches * MICROBATCH,
        microbatch=MICROBATCH,
        total=plan.total,
        num_workers=0,
    ):
        with step:
            seen: list[int] = []
            for numbers, features, classes in step:
                loss = cross_entropy(model(features), classes)
                time.sleep(pace)
                step.backward(loss, mean_of=len(classes))
                seen += numbers.tolist()
            step.update(optimizer)
            samples.append(seen)
        updated.append(time.perf_counter())
    seconds = [after - before for before, after in pairwise(updated)]
    weights = torch.cat([one.detach().flatten() for one in model.parameters()])
    return Noted(samples, seconds, weights.numpy().tobytes())
