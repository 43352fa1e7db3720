"""Steps of Run compared with torch's DDP: two processes that sum gradients over loopback.

Both train the same transformer of ten million parameters, with a few steps of each in turns and a
microbatch per step, which is the case with the most summing. With `unused` the last layer that the
model registers gets no gradient, and DDP has find_unused_parameters=True; with `two_optimizers` one
updates matrices and another the rest. With `kept` both are steps of Run in several microbatches:
one keeps finished microbatches in case of a loss, the other does not.

A part of bench/overhead.py, which starts it as
`torchrun --standalone --nproc-per-node=2 bench/overhead_ddp.py CASE`.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import torch
from torch import Tensor, distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW, Optimizer
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from bench.operator_bench import say
from devcluster.argument_types import how_many
from spotrun_trainer import Run

WIDTH, LAYERS, VOCABULARY, CONTEXT = 256, 8, 8192, 32
MICROBATCH = 4
WARM_STEPS = 3
CASES = ("plain", "unused", "two_optimizers")
KEPT, KEPT_MICROBATCHES = "kept", 4
STEPS = 3  # steps of one, before the turn of the other

Way = Callable[[], object]


class Decoder(nn.Module):
    """A model of ten million parameters; its second head, if it has one, is never used."""

    def __init__(self, *, with_unused: bool) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 4 * WIDTH, 0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.unused = nn.Linear(WIDTH, WIDTH) if with_unused else None

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[explicit-override]
        """Return the scores of every word for every position."""
        scores: Tensor = self.head(self.layers(self.token(x)))
        return scores.flatten(0, 1)


def loss_of(model: nn.Module, words: Tensor) -> Tensor:
    """Return the sum over all positions; the target is the previous word, which is as good here."""
    return cross_entropy(model(words), words.roll(1, 1).flatten(), reduction="sum")


def optimizers_of(model: nn.Module, case: str) -> list[Optimizer]:
    """Return one optimizer for everything, or one for matrices and another for the rest."""
    parameters = list(model.parameters())
    if case != "two_optimizers":
        return [AdamW(parameters)]
    return [
        AdamW([one for one in parameters if one.dim() > 1]),
        AdamW([one for one in parameters if one.dim() == 1]),
    ]


def endless_batches(data: TensorDataset) -> Iterator[list[Tensor]]:
    """Yield this process's microbatches, epoch after epoch, like scripts for DDP."""
    while True:
        yield from DataLoader(data, batch_size=MICROBATCH, sampler=DistributedSampler(data))


def by_ddp(data: TensorDataset, case: str) -> Way:
    """Return a step as in scripts for DDP."""
    torch.manual_seed(1)
    model = Decoder(with_unused=case == "unused")
    wrapped = DistributedDataParallel(model, find_unused_parameters=case == "unused")
    optimizers = optimizers_of(model, case)

    batches = endless_batches(data)

    def step() -> None:
        (words,) = next(batches)
        (loss_of(wrapped, words) / words.numel()).backward()  # type: ignore[no-untyped-call]
        clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()

    return step


def by_run(data: TensorDataset, case: str, microbatches: int = 1, *, keeps: bool = False) -> Way:
    """Return the same with Run, which keeps whole microbatches only in a world of spotrun."""
    run = Run(seed=1)
    model = run.prepare(Decoder(with_unused=case == "unused"))
    optimizers = optimizers_of(model, case)
    things: dict[str, Any] = {f"opt{number}": one for number, one in enumerate(optimizers)}
    run.track(model=model, **things)
    samples = cast("Iterable[Any]", data)
    batch = MICROBATCH * distributed.get_world_size() * microbatches
    steps = run.steps(samples, global_batch=batch, microbatch=MICROBATCH, num_workers=0)
    assert run._loop is not None, "the caller has requested steps"  # noqa: SLF001
    run._loop._keeps = lambda **_kind: keeps  # type: ignore[method-assign]  # noqa: SLF001

    def one() -> None:
        step = next(steps)
        with step:
            for (words,) in step:
                step.backward(loss_of(model, words), weight=words.numel())
            step.update(*optimizers, clip=1.0)

    return one


def seconds(way: Way, clock: Callable[[], float]) -> float:
    """Return the seconds of a few steps, which all processes begin together."""
    distributed.barrier()
    began = clock()
    for _ in range(STEPS):
        way()
    return clock() - began


def main() -> None:
    """Measure one case; rank 0 prints it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=(*CASES, KEPT))
    parser.add_argument("--repeats", type=how_many, default=20)
    args = parser.parse_args()
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    data = TensorDataset(torch.randint(VOCABULARY, (512, CONTEXT)))
    ways = ways_of(args.case, data)
    for way in ways.values():
        for _ in range(WARM_STEPS):
            way()
    # Keeping costs copies, not waits: CPU time is the same on a busy machine.
    clock = time.process_time if args.case == KEPT else time.perf_counter
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(args.repeats):  # both go first equally often
        for name in list(ways)[:: 1 if number % 2 else -1]:
            taken[name].append(seconds(ways[name], clock))
    if distributed.get_rank() == 0:
        (tell_of_kept if args.case == KEPT else tell)(args.case, taken)
    distributed.destroy_process_group()


def ways_of(case: str, data: TensorDataset) -> dict[str, Way]:
    """Return the two ways to compare."""
    if case != KEPT:
        return {"ddp": by_ddp(data, case), "ours": by_run(data, case)}
    names = {"dropped": False, "kept": True}
    return {
        name: by_run(data, case, KEPT_MICROBATCHES, keeps=keeps) for name, keeps in names.items()
    }


def tell_of_kept(_case: str, taken: dict[str, list[float]]) -> None:
    """Print the additional CPU time of a step that keeps its whole microbatches."""
    pairs = zip(taken["dropped"], taken["kept"], strict=True)
    more = [100 * (kept / dropped - 1) for dropped, kept in pairs]
    low, _, high = statistics.quantiles(more, n=4)
    say(
        "kept_overhead_percent",
        statistics.median(more),
        "percent",
        quartiles=[round(low, 2), round(high, 2)],
        repeats=len(more),
        **step_ms(taken),
    )


def step_ms(taken: dict[str, list[float]]) -> dict[str, float]:
    """Return the duration of a step in each way."""
    return {
        f"{name}_step_ms": round(1e3 * statistics.median(each) / STEPS, 1)
        for name, each in taken.items()
    }


def tell(case: str, taken: dict[str, list[float]]) -> None:
    """Print how many steps Run makes in the time that DDP takes for one."""
    ratios = [ddp / ours for ddp, ours in zip(taken["ddp"], taken["ours"], strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    say(
        "throughput_vs_ddp" if case == "plain" else f"throughput_{case}_vs_ddp",
        statistics.median(ratios),
        "ratio",
        quartiles=[round(low, 3), round(high, 3)],
        repeats=len(ratios),
        **step_ms(taken),
    )


if __name__ == "__main__":
    main()
