"""Our loader compared with torch's DataLoader: samples per second, and the wait of a step.

Both have the same dataset, order and number of workers, in one process. They take turns of some
microbatches each, so that both run under the same conditions. Two datasets: `tokens` reads a row
from memory, so that the loaders themselves are measured; `images` decompresses and crops, which
takes about a millisecond. The wait is measured with a pause before each microbatch, as if a GPU
computed then.

Run as `.venv/bin/python bench/data.py [--quick] [--workers 0 1 2]`.
"""

import argparse
import random
import statistics
import time
import zlib
from collections.abc import Callable, Generator
from typing import TypeAlias

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from typing_extensions import override

from bench.operator_bench import say
from devcluster.argument_types import how_many
from spotrun_trainer.data.order.sharding import Share, block_of
from spotrun_trainer.data.order.shuffle import Order
from spotrun_trainer.data.source import open_source

SEED = 1
MICROBATCH = 8
GLOBAL_BATCH = 64
LENGTH = 1 << 20
"""Samples in an epoch: more than are loaded, so that DataLoader does not start again."""
PAUSE_SECONDS = 0.010

Loading: TypeAlias = Generator[object, None, None]


class Tokens(Dataset[Tensor]):
    """Rows of 1,024 tokens in memory."""

    def __init__(self) -> None:
        self._tokens = torch.arange(1 << 20) % 50_000

    def __len__(self) -> int:
        return LENGTH

    @override
    def __getitem__(self, index: int) -> Tensor:
        start = index * 1009 % (len(self._tokens) - 1024)
        return self._tokens[start : start + 1024]


class Images(Dataset[tuple[Tensor, int]]):
    """Compressed images of 3 x 224 x 224, with a random crop that is mirrored."""

    def __init__(self) -> None:
        noise = torch.randint(24, (3, 224, 224), generator=torch.Generator().manual_seed(1))
        self._image = zlib.compress(noise.to(torch.uint8).numpy().tobytes())

    def __len__(self) -> int:
        return LENGTH

    @override
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        pixels = torch.frombuffer(bytearray(zlib.decompress(self._image)), dtype=torch.uint8)
        top, left = random.randrange(112), random.randrange(112)  # noqa: S311 - no secret
        image = pixels.view(3, 224, 224)[:, top : top + 112, left : left + 112]
        image = image.flip(2) if random.random() < 0.5 else image  # noqa: S311
        return image.float().div_(255).sub_(0.45).div_(0.22), index % 1000


def ours(dataset: Tokens | Images, workers: int) -> Loading:
    source = open_source(dataset, microbatch=MICROBATCH, seed=SEED, num_workers=workers)
    try:
        for start in range(0, LENGTH, GLOBAL_BATCH):
            yield from source.microbatches(block_of(start, GLOBAL_BATCH, MICROBATCH, Share()))
    finally:
        source.close()


def torchs(dataset: Tokens | Images, workers: int) -> Loading:
    order = Order(LENGTH, seed=SEED, shuffle=True)
    indices = [order.sample(number).index for number in range(1 << 17)]
    yield from DataLoader(dataset, MICROBATCH, sampler=indices, num_workers=workers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one worker, 3 short turns each")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--turns", type=how_many, default=20)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    turns = 3 if arguments.quick else arguments.turns
    for workers in [1] if arguments.quick else arguments.workers:
        for dataset in (Tokens(), Images()):
            measure(dataset, workers, turns, stretch=20 if arguments.quick else 100)


def measure(dataset: Tokens | Images, workers: int, turns: int, stretch: int) -> None:
    loaders = ours(dataset, workers), torchs(dataset, workers)
    for loader in loaders:
        take(loader, stretch)  # starts the workers, and fills the prefetch buffers
    facts = {"dataset": type(dataset).__name__.lower(), "workers": workers}

    rates = alternate(loaders, turns, lambda loader: stretch * MICROBATCH / take(loader, stretch))
    say("data_samples_per_second", [ours for ours, _ in rates], "1/s", **facts)
    say("data_samples_per_second_dataloader", [torchs for _, torchs in rates], "1/s", **facts)
    say("data_throughput_ratio", [ours / torchs for ours, torchs in rates], "", **facts)

    waits = alternate(loaders, turns, lambda loader: 1e3 * wait(loader, stretch // 5))
    say("data_wait_ms", [ours for ours, _ in waits], "ms", **facts)
    say("data_wait_ms_dataloader", [torchs for _, torchs in waits], "ms", **facts)
    for loader in loaders:
        loader.close()


def alternate(
    loaders: tuple[Loading, Loading], turns: int, figure: Callable[[Loading], float]
) -> list[tuple[float, float]]:
    """Return the figures of both for each turn; the order changes."""
    pairs = []
    for turn in range(turns):
        first, second = loaders if turn % 2 else loaders[::-1]
        figures = {id(first): figure(first), id(second): figure(second)}
        pairs.append((figures[id(loaders[0])], figures[id(loaders[1])]))
    return pairs


def take(loader: Loading, count: int) -> float:
    """Return the seconds for this many microbatches without pauses."""
    began = time.perf_counter()
    for _ in range(count):
        next(loader)
    return time.perf_counter() - began


def wait(loader: Loading, count: int) -> float:
    """Return the median seconds of waiting for a microbatch, with a pause for training on each."""
    waited = []
    for _ in range(count):
        time.sleep(PAUSE_SECONDS)
        waited.append(take(loader, 1))
    return statistics.median(waited)


if __name__ == "__main__":
    main()
