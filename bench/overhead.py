"""The cost of a step beyond the same step written by hand: time inside Run's own code.

`run_overhead_percent`: CPU milliseconds of a step of Run minus those of a plain loop, in percent of
a step of 100 ms. Both train the same transformer of two million parameters, in one process and one
thread, step by step in turns. Run assumes that it is in a world of spotrun, so it checks for orders
and reports progress. The sequences are short, so that the overhead is not lost in the noise of the
computation, whose length does not matter to Run. It is CPU time, because that is the same on a busy
machine, and a median, because only few steps include a report.

`meter_span_microseconds`: one span of the meter; `trace_span_microseconds`: one that is written to
a file, with SPOTRUN_TRACE.

`compare_overhead_percent`: the cost of comparing weights between processes all the time, in percent
of a step of 50 ms, for models of 4 and of 3,000 parameters; the larger value counts.

`throughput_vs_ddp`, `throughput_unused_vs_ddp`, `throughput_two_optimizers_vs_ddp`: steps of two
processes in the time that torch's DDP takes for one, see bench/overhead_ddp.py.

`kept_overhead_percent`: the additional CPU time of a step of two processes that keep finished
microbatches in case of a loss, in percent of the same step without that, in turns.

Run as `.venv/bin/python bench/overhead.py [--quick] [--repeats 200] [--only ddp]`.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW
from torch.utils.data import DataLoader, TensorDataset

from bench import overhead_ddp
from bench.operator_bench import say
from bench.overhead_ddp import CASES, KEPT
from devcluster.argument_types import how_many
from spotrun.wire import Answer, How, World
from spotrun_trainer import Run
from spotrun_trainer.loop.state_sync import checksum_of_weights
from spotrun_trainer.loop.voter import CHECKSUM_STEPS, PART_STEPS
from spotrun_trainer.process.ipc_files import write_world
from spotrun_trainer.step.step import Step
from spotrun_trainer.telemetry.meter import Meter
from spotrun_trainer.telemetry.trace import Trace

STEP_MS, COMPARED_STEP_MS = 100.0, 50.0
MICROBATCHES = 4
MICROBATCH = 4
CONTEXT = 4
WIDTH = 192
LAYERS = 4
VOCABULARY = 1_000
WARM_STEPS = 5
SPANS = 20_000


class Transformer(nn.Module):
    """About two million parameters in 51 tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[explicit-override]
        """Return the scores of every word for every position."""
        scores: Tensor = self.head(self.layers(self.token(x)))
        return scores.flatten(0, 1)


def by_hand(data: TensorDataset) -> Callable[[], None]:
    """Return a step of a plain loop: gradients are accumulated, clipped and applied."""
    torch.manual_seed(1)
    model = Transformer()
    opt = AdamW(model.parameters())
    tokens = MICROBATCHES * MICROBATCH * CONTEXT

    def endless() -> Iterator[list[Tensor]]:
        while True:
            yield from DataLoader(data, batch_size=MICROBATCH, shuffle=True, drop_last=True)

    batches = endless()

    def step() -> None:
        for _ in range(MICROBATCHES):
            x, y = next(batches)
            loss = cross_entropy(model(x), y.flatten(), reduction="sum") / tokens
            loss.backward()  # type: ignore[no-untyped-call]
        clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()

    return step


def by_run(data: TensorDataset) -> Callable[[], None]:
    """The same, with Run."""
    run = Run(seed=1)
    model = run.prepare(Transformer())
    opt = AdamW(model.parameters())
    run.track(model=model, opt=opt)
    samples = cast("Iterable[Any]", data)
    steps: Iterator[Step] = run.steps(
        samples, global_batch=MICROBATCHES * MICROBATCH, microbatch=MICROBATCH
    )

    def one() -> None:
        step = next(steps)
        with step:
            for x, y in step:
                loss = cross_entropy(model(x), y.flatten(), reduction="sum")
                step.backward(loss, weight=y.numel())
            step.update(opt, clip=1.0)

    return one


def cpu_ms(step: Callable[[], None]) -> float:
    """Measure the CPU milliseconds that a step costs this process."""
    before = time.process_time_ns()
    step()
    return (time.process_time_ns() - before) / 1e6


def enter_world(directory: Path) -> None:
    """Enter a world as the agent does for a worker that trains alone."""
    world = World(1, 0, 1, 1, None, "secret", (), How.RESTART, switch=True, restore=None)
    write_world(directory, Answer("1", "Running", world))
    os.environ |= {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "SPOTRUN_WORLD_NUMBER": "1",
        "SPOTRUN_DIR": str(directory),
    }


def measure_steps(repeats: int) -> None:
    """Measure steps of both, in turns; each pair gives one difference."""
    words = torch.randint(VOCABULARY, (2, 512, CONTEXT))
    data = TensorDataset(*words)
    plain, ours = by_hand(data), by_run(data)
    for _ in range(WARM_STEPS):
        plain(), ours()
    pairs = [(cpu_ms(plain), cpu_ms(ours)) for _ in range(repeats)]
    more = [b - a for a, b in pairs]
    low, _, high = statistics.quantiles(more, n=4)
    say(
        "run_overhead_percent",
        statistics.median(more) / STEP_MS * 100,
        "percent",
        quartiles=[round(low, 2), round(high, 2)],
        repeats=repeats,
        by_hand_step_ms=round(statistics.median(a for a, _ in pairs), 1),
        step_ms=round(statistics.median(b for _, b in pairs), 1),
    )


def measure_beside_ddp(cases: Sequence[str], repeats: int) -> None:
    """Measure each case with two processes, one case after the other."""
    torchrun = [str(Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc-per-node=2"]
    for case in cases:
        child = [str(Path(overhead_ddp.__file__)), case, f"--repeats={repeats}"]
        subprocess.run([*torchrun, *child], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})


def measure_comparisons(repeats: int) -> None:
    """Measure all comparisons of CHECKSUM_STEPS steps, for models of a million numbers each."""
    percent = {}
    for parameters in (4, 3_000):
        weights = [nn.Parameter(torch.randn(1_000_000 // parameters)) for _ in range(parameters)]
        optimizer, taken = AdamW(weights), []
        parts = CHECKSUM_STEPS // PART_STEPS
        for _ in range(repeats):
            began = time.process_time_ns()
            for part in range(parts):
                checksum_of_weights([optimizer], part, parts)
            taken.append((time.process_time_ns() - began) / 1e6 / CHECKSUM_STEPS)
        percent[parameters] = [each / COMPARED_STEP_MS * 100 for each in taken]
    facts = {f"of_{count}": round(statistics.median(each), 3) for count, each in percent.items()}
    say(
        "compare_overhead_percent", max(percent.values(), key=statistics.median), "percent", **facts
    )


def measure_spans(directory: Path) -> None:
    """Measure a span, best of several: its cost does not vary, only the disturbances do."""
    for name, trace in (("meter", Trace(None)), ("trace", Trace(directory))):
        meter = Meter(trace)

        def span(meter: Meter = meter) -> None:
            with meter.span("data"):
                pass

        seconds = timeit.repeat(span, number=SPANS, repeat=7)
        say(f"{name}_span_microseconds", min(seconds) / SPANS * 1e6, "us")
        trace.close()


def main() -> None:
    """Compare with DDP, and measure alone in a separate directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small size, to see that it runs")
    parser.add_argument("--repeats", type=how_many, default=200)
    parser.add_argument("--only", choices=("alone", "ddp", "kept"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.only != "alone":
        cases = {"ddp": CASES, "kept": (KEPT,)}.get(args.only, (*CASES, KEPT))
        cases, repeats = (cases[-3:], 2) if args.quick else (cases, max(2, args.repeats // 10))
        measure_beside_ddp(cases, repeats)
    if args.only in {"ddp", "kept"}:
        return
    measure_comparisons(5 if args.quick else 50)
    with tempfile.TemporaryDirectory() as directory:
        enter_world(Path(directory))
        measure_steps(4 if args.quick else args.repeats)
        measure_spans(Path(directory))


if __name__ == "__main__":
    main()
