"""The cost of `Run` on one GPU: a step compared with the same step by hand, and a checkpoint.

A decoder of 354 million parameters with AdamW (fused), bf16 autocast and clipping, four
microbatches of 16 sequences of 512 tokens, from a DataLoader with pinned memory in both.
`gpu_step_ms` is a step of Run, `gpu_step_ms_by_hand` one of a plain loop; `gpu_step_ratio` is the
first divided by the second. They take turns of some steps in one process, so that both have the
same GPU clocks; within a turn only the loops themselves wait for the GPU. `gpu_host_waits` and
`gpu_host_waits_by_hand` count these waits per step, by torch's profiler.

`gpu_checkpoint_call_ms` is the additional time of a step in which weights and optimizer are saved:
they are copied during the step's forward and backward passes, and the copy must be complete before
its update. The first save allocates pinned memory.

`gpu_node_lost_stall_seconds`: two processes on this GPU, one of which is killed during a step, with
a scripted operator that sees the loss at once, over gloo, and over NCCL where that lets processes
share a GPU (bench/gpu_losses.py).

`gpu_watch_look_ms`: what an agent asks of the driver every five seconds.

Run as `.venv/bin/python bench/gpu.py [--repeats 20] [--loaders 2] [--place DIRECTORY]` on a machine
with a GPU.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from bench.gpu_losses import measure_losses
from bench.operator_bench import say
from devcluster.argument_types import how_many
from spotrun_trainer import Run
from spotrun_trainer.checkpoint import Checkpoints
from spotrun_trainer.state.tracked import Tracked
from spotrun_trainer.telemetry.gpu.gpu_watch import GpuWatch
from spotrun_trainer.telemetry.gpu.nvml import open_nvml

WIDTH, LAYERS, HEADS, VOCABULARY, CONTEXT = 1024, 24, 16, 50_304, 512
MICROBATCHES, MICROBATCH = 4, 16
WARM_STEPS, STEPS_IN_TURN = 5, 4


class Decoder(nn.Module):
    """A model like GPT-2 in its medium size, with tied words."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.token.weight
        self.register_buffer(
            "mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT), persistent=False
        )

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[explicit-override]
        """Return the scores of every word for every position."""
        places = torch.arange(CONTEXT, device=x.device)
        mixed = self.layers(self.token(x) + self.place(places), mask=self.mask, is_causal=True)
        scores: Tensor = self.head(mixed)
        return scores.flatten(0, 1)


def loss_of(model: nn.Module, batch: list[Tensor]) -> Tensor:
    """Return the sum over all positions; the target is the previous word, which is as good here."""
    (x,) = batch
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return cross_entropy(model(x).float(), x.roll(1, 1).flatten(), reduction="sum")


def by_run(words: TensorDataset, loaders: int) -> Iterator[None]:
    """Yield after each step of Run; the first step is the warm-up."""
    run = Run(seed=1)
    model = run.prepare(Decoder())
    opt = torch.optim.AdamW(model.parameters(), fused=True)
    run.track(model=model, opt=opt)
    batch = MICROBATCHES * MICROBATCH
    for step in run.steps(words, global_batch=batch, microbatch=MICROBATCH, num_workers=loaders):
        with step:
            for x in step:
                step.backward(loss_of(model, x), weight=MICROBATCH * CONTEXT)
            step.update(opt, clip=1.0)
        yield


def by_hand(words: TensorDataset, loaders: int) -> Iterator[None]:
    """The same in a plain loop."""
    torch.manual_seed(1)
    model = Decoder().cuda()
    opt = torch.optim.AdamW(model.parameters(), fused=True)
    count = MICROBATCHES * MICROBATCH * CONTEXT
    batches = batches_for_ever(words, loaders)
    while True:
        for x in islice(batches, MICROBATCHES):
            (loss_of(model, [x.cuda(non_blocking=True)]) / count).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        yield


def batches_for_ever(words: TensorDataset, loaders: int) -> Iterator[Tensor]:
    """Batches of torch's own loader."""
    loader = DataLoader(
        words,
        MICROBATCH,
        shuffle=True,
        num_workers=loaders,
        pin_memory=True,
        persistent_workers=loaders > 0,
    )
    while True:
        for (x,) in loader:
            yield x


def milliseconds(do: Callable[[], object]) -> float:
    """Return the milliseconds until the GPU has finished as well."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    do()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - began)


def measure_steps(repeats: int, loaders: int) -> None:
    """Measure steps of both in turns, and then of each with the profiler."""
    words = TensorDataset(torch.randint(0, VOCABULARY, (MICROBATCH * 256, CONTEXT)))
    ways = {"": by_run(words, loaders), "_by_hand": by_hand(words, loaders)}
    for _ in range(WARM_STEPS):
        for steps in ways.values():
            next(steps)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, steps in ways.items():
            taken[name].append(milliseconds(partial(take, steps)) / STEPS_IN_TURN)
    for name, values in taken.items():
        say(f"gpu_step_ms{name}", values, "ms")
    ours, plain = (statistics.median(values) for values in taken.values())
    say("gpu_step_ratio", ours / plain, "ratio")
    for name, steps in ways.items():
        next(steps)
        say(f"gpu_host_waits{name}", waits_of(steps), "a step")


def take(steps: Iterator[None]) -> None:
    """Take some steps without waits between them."""
    for _ in range(STEPS_IN_TURN):
        next(steps)


def waits_of(steps: Iterator[None]) -> float:
    """Return how often the host waits for the GPU in a step."""
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as seen:
        take(steps)
    # The profiler itself waits for the device once, at its end.
    waits = {"cudaStreamSynchronize", "cudaEventSynchronize"}
    return sum(event.name in waits for event in seen.events() or []) / STEPS_IN_TURN


def measure_checkpoint(place: Path, repeats: int) -> None:
    """Measure checkpoints of weights and both moments: 4.2 GB."""
    model = Decoder().cuda()
    opt = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.zeros(MICROBATCH, CONTEXT, dtype=torch.long, device="cuda")

    def compute() -> None:
        for _ in range(MICROBATCHES):
            loss_of(model, [x]).backward()  # type: ignore[no-untyped-call]

    compute()
    opt.step()
    tracked = Tracked()
    tracked.add("model", model)
    tracked.add("opt", opt)
    checkpoints, taken = Checkpoints(str(place), keep=1), []
    plain = statistics.median(milliseconds(compute) for _ in range(5))
    for number in range(1, repeats + 1):
        name = f"step-{number}.g0"

        def save(name: str = name) -> None:
            checkpoints.save(name, tracked.flatten(), rank=0, size=1, extra={})
            compute()
            checkpoints.before_change()

        taken.append(milliseconds(save) - plain)
        while checkpoints.finished() is None:
            time.sleep(0.01)
    say("gpu_checkpoint_first_call_ms", taken[0], "ms")
    say("gpu_checkpoint_call_ms", taken[1:], "ms")


def main() -> None:
    """Measure all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=how_many, default=20)
    parser.add_argument("--loaders", type=int, default=2, help="processes that load data")
    parser.add_argument("--place", type=Path, help="folder for checkpoints")
    parser.add_argument("--losses", type=how_many, default=3)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no GPU on this machine")
    say_machine()
    measure_watch(options.repeats)
    measure_losses(options.losses)
    measure_steps(options.repeats, options.loaders)
    with tempfile.TemporaryDirectory(dir=options.place) as place:
        measure_checkpoint(Path(place), max(3, options.repeats // 5))


def measure_watch(repeats: int) -> None:
    """Measure what an agent's look at its GPUs takes."""
    watch = GpuWatch(open_nvml)
    opened = milliseconds(watch.open)
    taken = [milliseconds(lambda: watch.look(0.0)) for _ in range(repeats)]
    say("gpu_watch_look_ms", taken, "ms", opened_ms=opened)


def say_machine() -> None:
    """Print the GPU and the versions of the libraries."""
    name, nccl = torch.cuda.get_device_name(), ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]
    print(json.dumps({"gpu": name, "torch": torch.__version__, "nccl": nccl}), flush=True)


if __name__ == "__main__":
    main()
