"""The training of bench/recovery.py: so many parameters on samples that four loader workers read.

`run` is a script as spotrun's users write it; `ddp` one after PyTorch's tutorials, for stock
torchrun. Both append a line of JSON for every step to a file that the bench reads.
"""

import argparse
import json
import math
import os
import resource
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from typing_extensions import override

import spotrun_trainer
from devcluster.argument_types import how_many
from spotrun_trainer.loop.loop import Loop

WIDTH = 1024
MICROBATCH = 4
MICROBATCHES = 6  # shared evenly by 1, 2 and 3 workers
LOADERS = 4
SAMPLES = 100_000
LEARNING_RATE = 1e-3
STEPS = 1_000_000
SAVE_EVERY_SECONDS = 10.0  # and as much longer as there is more to be saved
USUAL_LAYERS = 24


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


def model(layers: int) -> nn.Module:
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(layers)))


def layers_of(parameters_m: float) -> int:
    """Return the number of layers that make up so many millions of parameters."""
    return round(parameters_m * 1e6 / WIDTH**2)


def millions(text: str) -> float:
    """Read millions of parameters, enough for one layer, for `type` of argparse."""
    try:
        parameters_m = float(text)
    except ValueError:
        parameters_m = math.nan
    if not (0 < parameters_m < math.inf and layers_of(parameters_m)):
        raise argparse.ArgumentTypeError(f"{text!r} is no size of a model: use 1, 25, 250 ...")
    return parameters_m


def train_with_run(folder: Path, layers: int) -> None:
    run = spotrun_trainer.Run(
        seed=1,
        checkpoint=folder / "checkpoints",
        every=SAVE_EVERY_SECONDS * max(1.0, layers / USUAL_LAYERS),
        keep=2,
    )
    net = run.prepare(model(layers))
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
            took = []
            for x in step:
                began = time.perf_counter()
                step.backward(net(x).square().mean(1).sum(), weight=len(x))
                took.append(time.perf_counter() - began)
            step.update(optimizer)
            measured = {
                "microbatch_seconds": sum(took) / max(1, len(took)),
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
            trace(folder, step.number, run.rank, run.world_size, **measured)


def train_with_ddp(folder: Path, layers: int) -> None:
    distributed.init_process_group("gloo")
    rank, size = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(1)
    net = nn.parallel.DistributedDataParallel(model(layers))
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


def trace(folder: Path, step: int, rank: int, size: int, **more: float) -> None:
    line = {"time": time.time(), "step": step, "rank": rank, "size": size, "pid": os.getpid()}
    line |= more
    with (folder / "trace.jsonl").open("a") as lines:
        lines.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=("run", "ddp"))
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--layers", type=how_many, default=USUAL_LAYERS, help=f"of {WIDTH} x {WIDTH}"
    )
    parser.add_argument(
        "--anew", action="store_true", help="drop the whole step in which a worker is lost"
    )
    arguments = parser.parse_args()
    if arguments.anew:
        Loop._keeps = lambda _loop, **_kind: False  # type: ignore[method-assign]  # noqa: SLF001
    torch.set_num_threads(1)
    train = train_with_run if arguments.way == "run" else train_with_ddp
    train(arguments.folder, arguments.layers)
