"""What bench/recovery.py trains: 25 M parameters on samples that four loader workers read.

`run` is a script as spotrun's users write it; `ddp` one after PyTorch's tutorials, for stock
torchrun. Both append a line of JSON for every step to a file that the bench reads.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from typing_extensions import override

import spotrun_trainer

WIDTH = 1024
LAYERS = 24  # of WIDTH x WIDTH: 25.2 M parameters, 101 MB of gradients
MICROBATCH = 4
MICROBATCHES = 6  # shared evenly by 1, 2 and 3 workers
LOADERS = 4
SAMPLES = 100_000
LEARNING_RATE = 1e-3
STEPS = 1_000_000
SAVE_EVERY_SECONDS = 10.0


class Files(Dataset[Tensor]):
    """Samples that are read from a file, as real ones are."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __len__(self) -> int:
        return SAMPLES

    @override
    def __getitem__(self, index: int) -> Tensor:
        with self._file.open("rb") as samples:
            samples.seek(4 * WIDTH * (index % 64))
            return torch.frombuffer(bytearray(samples.read(4 * WIDTH)), dtype=torch.float32)


def model() -> nn.Module:
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))


def train_with_run(folder: Path) -> None:
    run = spotrun_trainer.Run(
        seed=1, checkpoint=folder / "checkpoints", every=SAVE_EVERY_SECONDS, keep=2
    )
    net = run.prepare(model())
    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE, momentum=0.9)
    run.track(model=net, optimizer=optimizer)
    batch = MICROBATCH * MICROBATCHES
    for step in run.steps(
        Files(folder / "samples"),
        global_batch=batch,
        microbatch=MICROBATCH,
        total=STEPS,
        num_workers=LOADERS,
    ):
        with step:
            for x in step:
                step.backward(net(x).square().mean(1).sum(), weight=len(x))
            step.update(optimizer)
            trace(folder, step.number, run.rank, run.world_size)


def train_with_ddp(folder: Path) -> None:
    distributed.init_process_group("gloo")
    rank, size = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(1)
    net = nn.parallel.DistributedDataParallel(model())
    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE, momentum=0.9)
    samples = Files(folder / "samples")
    sampler = DistributedSampler[Any](samples, size, rank)
    batches = DataLoader(
        samples,
        batch_size=MICROBATCH * MICROBATCHES // size,
        sampler=sampler,
        num_workers=LOADERS,
    )
    for step, x in enumerate(batches, 1):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
        trace(folder, step, rank, size)


def trace(folder: Path, step: int, rank: int, size: int) -> None:
    line = {"time": time.time(), "step": step, "rank": rank, "size": size, "pid": os.getpid()}
    with (folder / "trace.jsonl").open("a") as lines:
        lines.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=("run", "ddp"))
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    (train_with_run if arguments.way == "run" else train_with_ddp)(arguments.folder)
