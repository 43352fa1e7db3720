"""Less traffic between copies, and its cost: Run(compress=), and step.inner_update.

    compression_bytes     bytes that each process sends for a batch of 64, around a ring
    compression_step_ms   the time for such a batch: the median over a training
    compression_val_loss  the loss on held-out samples, after the last step
    compression_vs_plain  the same, minus that of plain sums with the same seed
    compression_codec_ms  CPU time of one thread to encode and decode a bucket of 25 MiB, one
                          matrix: compression pays off only if the network is slower than that

The tiny model of the examples, from scratch, on real text. Processes use gloo over loopback, which
is far faster than any network between zones, so the time of a step shows the cost of computing. For
several seeds: the median, minimum and maximum. All ways take turns, seed by seed.

Run as `.venv/bin/python bench/compression.py [--quick] [--seeds 3] [--steps 240] [--size 2]`.
"""

import argparse
import importlib.util
import math
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Subset
from typing_extensions import override

from bench.operator_bench import ROOT, say
from devcluster.argument_types import how_many
from spotrun_trainer import PowerSGD, Run, TopK
from spotrun_trainer.elastic.pending_collectives import Done, Pending
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.step.reduce.compression import BF16, Compression
from spotrun_trainer.step.reduce.exchange import Exchange
from tests.support.processes.trainer_world import run_world

LM = ROOT / "trainer_image" / "examples" / "tiny_lm.py"
GLOBAL_BATCH, MICROBATCH, HELD_OUT = 64, 8, 512
PATIENCE_SECONDS = 900.0


@dataclass(frozen=True)
class Way:
    """One way to sum less: fewer bytes, or only after some inner steps of each process."""

    compress: Compression | None = None
    inner_steps: int = 0
    outer_lr: float = 0.7  # with momentum 0.9, as in DiLoCo; 1: the plain mean, without momentum


WAYS = {
    "none": Way(),
    "bf16": Way(BF16()),
    "powersgd-4": Way(PowerSGD(rank=4)),
    "topk-0.1": Way(TopK(ratio=0.1)),
    "topk-0.01": Way(TopK(ratio=0.01)),
    "inner-10": Way(inner_steps=10),
    "inner-30": Way(inner_steps=30),
    "mean-10": Way(inner_steps=10, outer_lr=1.0),
    "mean-30": Way(inner_steps=30, outer_lr=1.0),
}
QUICK = ("none", "topk-0.01", "inner-10")


@dataclass(frozen=True)
class Plan:
    """One training."""

    way: Way
    seed: int
    steps: int  # of 64 samples
    size: int
    windows: int  # of the text that is trained on


@dataclass(frozen=True)
class Found:
    """The result of a training."""

    sent_bytes: float
    step_seconds: float
    val_loss: float


def train(plan: Plan) -> Found:
    """Train as the example does."""
    torch.set_num_threads(1)
    lm = _example()
    data = lm.load(Path(argparse.__file__).parent)
    held_out = Subset(data, range(HELD_OUT))
    trained_on = Subset(data, range(HELD_OUT, min(len(data), HELD_OUT + plan.windows)))
    run = Run(plan.seed, compress=plan.way.compress)
    model = run.prepare(lm.TinyLM())
    adam = torch.optim.AdamW(model.parameters(), lr=3e-3)
    momentum = 0.0 if plan.way.outer_lr == 1 else 0.9
    sgd = torch.optim.SGD(
        model.parameters(), lr=plan.way.outer_lr, momentum=momentum, nesterov=momentum > 0
    )
    inner = plan.way.inner_steps
    run.track(model=model, opt=sgd if inner else adam)
    seconds = []
    for step in run.steps(
        trained_on,
        global_batch=GLOBAL_BATCH * (inner or 1),
        microbatch=GLOBAL_BATCH // plan.size if inner else MICROBATCH,
        total=math.ceil(plan.steps / (inner or 1)),
        num_workers=0,
    ):
        began = time.perf_counter()
        with step:
            for x, y in step:
                step.backward(model(x, y), mean_of=y.numel())
                if inner:
                    step.inner_update(adam, clip=1.0)
            step.update(sgd if inner else adam, clip=None if inner else 1.0)
        seconds.append((time.perf_counter() - began) / (inner or 1))
    told = run._loop._step_context.sync_bytes()  # type: ignore[union-attr]  # noqa: SLF001
    sent = 2 * (run.world_size - 1) / run.world_size * told / (inner or 1)
    val = run.evaluate(model, held_out, lambda lm, xy: lm(*xy))
    return Found(sent, statistics.median(seconds), val)


class Mirror(Group):
    """A world of two whose other process sends the same data at once."""

    def __init__(self) -> None:
        super().__init__(0, 2)

    @override
    def all_reduce(self, tensor: Tensor) -> Pending:
        tensor.mul_(2)
        return Done()

    @override
    def begin(self, collective: Callable[[Any], Any], tensor: Tensor) -> Pending:
        collective(self)
        return Done()

    def allgather(self, rows: list[list[Tensor]], tensors: list[Tensor]) -> None:
        """Fill all rows, as torch's backends do."""
        for row in rows[0]:
            row.copy_(tensors[0])


def codec_seconds(compression: Compression, turns: int) -> list[float]:
    """Return the CPU time of one thread for a bucket, turn by turn."""
    torch.set_num_threads(1)
    shape = torch.Size((2560, 2560))
    exchange, group = Exchange(compression.codec([shape]), [shape.numel()]), Mirror()
    seconds = []
    for _ in range(turns):
        values, marks = torch.randn(shape.numel()), torch.ones(1)
        began = time.thread_time()
        exchange.begin(values, marks, group).wait()
        exchange.keep_rest(marks, some_missing=False)
        seconds.append(time.thread_time() - began)
    return seconds[1:]  # the first one allocates


def _example() -> Any:  # noqa: ANN401 - a script
    spec = importlib.util.spec_from_file_location("tiny_lm", LM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(arguments: argparse.Namespace) -> dict[str, list[Found]]:
    """Train in every way with each seed."""
    found = defaultdict[str, list[Found]](list)
    for seed in range(arguments.seeds):
        for way in QUICK if arguments.quick else arguments.ways or WAYS:
            windows = 2000 if arguments.quick else 10**9
            plan = Plan(WAYS[way], seed, arguments.steps, arguments.size, windows)
            ended = run_world(arguments.size, train, plan, patience_seconds=PATIENCE_SECONDS)
            if ended[0].error:
                raise RuntimeError(f"{way}: {ended[0].error}\n{ended[0].said}")
            found[way].append(ended[0].value)
            print(way, seed, ended[0].value, file=sys.stderr, flush=True)
    return found


def main() -> None:
    """Train, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few steps of two ways")
    parser.add_argument("--ways", nargs="*", choices=WAYS, help="default: all")
    parser.add_argument("--seeds", type=how_many, default=3)
    parser.add_argument("--steps", type=how_many, default=240)
    parser.add_argument("--size", type=how_many, default=2, help="processes")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.seeds, arguments.steps = 1, 4
    for name, way in WAYS.items():
        if way.compress is not None and name in (arguments.ways or WAYS):
            seconds = codec_seconds(way.compress, 3 if arguments.quick else 10)
            say("compression_codec_ms", [1e3 * one for one in seconds], "ms", way=name)
    found = measure(arguments)
    for name, trainings in found.items():
        facts: dict[str, object] = {"way": name, "seeds": len(trainings), "size": arguments.size}
        facts["steps"] = arguments.steps
        say("compression_bytes", trainings[0].sent_bytes, "bytes/step", **facts)
        say("compression_step_ms", [1e3 * one.step_seconds for one in trainings], "ms", **facts)
        say("compression_val_loss", [one.val_loss for one in trainings], "nats", **facts)
        if plain := found.get("none"):
            pairs = zip(trainings, plain, strict=True)
            worse = [one.val_loss - other.val_loss for one, other in pairs]
            say("compression_vs_plain", worse, "nats", **facts)


if __name__ == "__main__":
    main()
