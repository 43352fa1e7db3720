"""The cost of `Run` on one GPU: a step beside the same step written by hand, and a checkpoint.

A decoder of 124 million parameters with AdamW (fused), bf16 autocast and clipping, four
microbatches of 32 sequences of 512 tokens. `gpu_step_ms` is a step of Run, `gpu_step_ms_by_hand`
one of a plain loop, in turns in one process, so that both see the same clocks of the GPU;
`gpu_step_vs_by_hand` is the second over the first. `gpu_checkpoint_call_ms`: from asking for a
checkpoint of weights and optimizer until training goes on.

Run as `.venv/bin/python bench/gpu.py [--repeats 30] [--place DIRECTORY]` on a machine with a GPU.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from bench.operator_bench import say
from devcluster.argument_types import how_many
from spotrun_trainer import Run
from spotrun_trainer.checkpoint import Checkpoints
from spotrun_trainer.state.tracked import Tracked

WIDTH, LAYERS, HEADS, VOCABULARY, CONTEXT = 768, 12, 12, 32_000, 512
MICROBATCHES, MICROBATCH = 4, 32
WARM_STEPS = 5


class Decoder(nn.Module):
    """A model like GPT-2 in its small size, with tied words."""

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
        """Scores of every word for every place."""
        places = torch.arange(CONTEXT, device=x.device)
        mixed = self.layers(self.token(x) + self.place(places), mask=self.mask, is_causal=True)
        scores: Tensor = self.head(mixed)
        return scores.flatten(0, 1)


def loss_of(model: nn.Module, batch: list[Tensor]) -> Tensor:
    """The sum over all places; what comes next is the word before, which is as good."""
    (x,) = batch
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return cross_entropy(model(x).float(), x.roll(1, 1).flatten(), reduction="sum")


def by_run(words: TensorDataset) -> Iterator[None]:
    """Steps of Run; the first of them only warms up."""
    run = Run(seed=1)
    model = run.prepare(Decoder())
    opt = torch.optim.AdamW(model.parameters(), fused=True)
    run.track(model=model, opt=opt)
    batch = MICROBATCHES * MICROBATCH
    for step in run.steps(words, global_batch=batch, microbatch=MICROBATCH, num_workers=0):
        with step:
            for x in step:
                step.backward(loss_of(model, x), weight=MICROBATCH * CONTEXT)
            step.update(opt, clip=1.0)
        yield


def by_hand(words: TensorDataset) -> Iterator[None]:
    """The same in a plain loop."""
    torch.manual_seed(1)
    model = Decoder().cuda()
    opt = torch.optim.AdamW(model.parameters(), fused=True)
    (samples,) = words.tensors
    count = MICROBATCHES * MICROBATCH * CONTEXT
    first = 0
    while True:
        for _ in range(MICROBATCHES):
            chosen = samples[first % len(samples) :][:MICROBATCH].pin_memory()
            (loss_of(model, [chosen.cuda(non_blocking=True)]) / count).backward()  # type: ignore[no-untyped-call]
            first += MICROBATCH
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        yield


def milliseconds(do: Callable[[], object]) -> float:
    """Measure the milliseconds until the GPU has done it, too."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    do()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - began)


def measure_steps(repeats: int) -> None:
    """A step of each in turns."""
    words = TensorDataset(torch.randint(0, VOCABULARY, (MICROBATCH * 64, CONTEXT)))
    ways = {"gpu_step_ms": by_run(words), "gpu_step_ms_by_hand": by_hand(words)}
    for _ in range(WARM_STEPS):
        for steps in ways.values():
            next(steps)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, steps in ways.items():
            taken[name].append(milliseconds(partial(next, steps)))
    for name, values in taken.items():
        say(name, values, "ms")
    ours, plain = (statistics.median(values) for values in taken.values())
    say("gpu_step_vs_by_hand", plain / ours, "ratio")


def measure_checkpoint(place: Path, repeats: int) -> None:
    """Measure checkpoints of weights and both moments: 1.5 GB."""
    model = Decoder().cuda()
    opt = torch.optim.AdamW(model.parameters(), fused=True)
    loss_of(model, [torch.zeros(1, CONTEXT, dtype=torch.long, device="cuda")]).backward()  # type: ignore[no-untyped-call]
    opt.step()
    tracked = Tracked()
    tracked.add("model", model)
    tracked.add("opt", opt)
    checkpoints, taken = Checkpoints(str(place), keep=1), []
    for number in range(1, repeats + 1):
        name = f"step-{number}.g0"

        def save(name: str = name) -> None:
            checkpoints.save(name, tracked.flatten(), rank=0, size=1, extra={})
            checkpoints.before_change()

        taken.append(milliseconds(save))
        while checkpoints.finished() is None:
            time.sleep(0.01)
    # The first one allocates pinned memory.
    say("gpu_checkpoint_first_call_ms", taken[0], "ms")
    say("gpu_checkpoint_call_ms", taken[1:], "ms")


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=how_many, default=30)
    parser.add_argument("--place", type=Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no GPU on this machine")
    measure_steps(options.repeats)
    with tempfile.TemporaryDirectory(dir=options.place) as place:
        measure_checkpoint(Path(place), max(3, options.repeats // 5))


if __name__ == "__main__":
    main()
