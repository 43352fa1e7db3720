"""The cost of counting the steps of a script; bench/scripts.py prints it.

A loop with a DataLoader and AdamW in one process, with a step every 50 ms, because reports are
written twice a second, independent of the steps. It runs with the hooks and without them in turns.
It is CPU time, because that is the same on a busy machine, and the mean, because one step in ten
includes a report.
"""

import atexit
import importlib
import os
import statistics
import tempfile
import time
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from spotrun_trainer.hooks.watches import WATCH, watch_loaders, watch_optimizers

STEP_SECONDS = 0.05
STEPS = 40
WARM_STEPS = 5


def hook_overheads(rounds: int) -> list[float]:
    """Return, for each round, the cost of the hooks in percent of a step."""
    optimizers = importlib.import_module("torch.optim.optimizer")
    loaders = importlib.import_module("torch.utils.data.dataloader")
    fetch = loaders._BaseDataLoaderIter.__next__  # noqa: SLF001 - what the watch replaces
    found = []
    with tempfile.TemporaryDirectory() as directory:
        os.environ |= {"SPOTRUN_DIR": directory, "SPOTRUN_WORLD_NUMBER": "1"}
        for _ in range(rounds):
            without = step_seconds()
            end = watch_optimizers(optimizers)
            watch_loaders(loaders)
            found.append((step_seconds() - without) / STEP_SECONDS * 100)
            end()
            loaders._BaseDataLoaderIter.__next__ = fetch  # noqa: SLF001 - as it was
        if WATCH.reports is not None:
            atexit.unregister(WATCH.reports.close)  # the folder no longer exists then
        WATCH.turn_off()
    return found


def step_seconds() -> float:
    """Return the CPU seconds of a step."""
    torch.manual_seed(1)
    model = nn.Linear(8, 1)
    opt = torch.optim.AdamW(model.parameters())
    batches = endless()

    def step() -> float:
        began, before = time.monotonic(), time.process_time()
        (x,) = next(batches)
        model(x).mean().backward()
        opt.step()
        opt.zero_grad()
        spent = time.process_time() - before
        time.sleep(max(STEP_SECONDS - (time.monotonic() - began), 0.0))
        return spent

    for _ in range(WARM_STEPS):
        step()
    return statistics.fmean(step() for _ in range(STEPS))


def endless() -> Iterator[list[Tensor]]:
    """Batches without end."""
    data = TensorDataset(torch.ones(4096, 8))
    while True:
        yield from DataLoader(data, batch_size=4)
