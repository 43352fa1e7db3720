"""Steps of Run compared with torch's fully_shard (FSDP2): two processes with half a model each.

Both train the transformer of bench/overhead_ddp.py, with a microbatch per step and process. Each
has its own processes, because both need torch's default group. They take turns; the other one
sleeps meanwhile. A part of bench/parallel.py.
"""

import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from torch import distributed
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW
from torch.utils.data import TensorDataset

from bench.operator_bench import say
from bench.overhead_ddp import CONTEXT, MICROBATCH, VOCABULARY, Decoder, endless_batches, loss_of
from spotrun_trainer import Parallel, Run
from tests.support.processes.trainer_world import Process, place_of

SHARDS = 2
STEPS = 3  # steps of one, before the turn of the other
WARM_TURNS = 2
LOOK_SECONDS = 0.002
PATIENCE_SECONDS = 300.0
SIDES = ("fsdp2", "ours")

Way = Callable[[], object]


def measure_throughput(scratch: Path, *, turns: int) -> None:
    """Print how many steps Run makes in the time that torch alone takes for one."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # noqa: PLC0415

    stores = [TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) for _ in SIDES]
    processes = [
        Process(_environment(rank, store.port), take_turns, side, str(scratch), turns)
        for side, store in zip(SIDES, stores, strict=True)
        for rank in range(SHARDS)
    ]
    taken: dict[str, list[float]] = {side: [] for side in SIDES}
    until = time.monotonic() + PATIENCE_SECONDS
    for number in range(turns):
        for side in SIDES[:: 1 if number % 2 else -1]:  # both go first equally often
            (scratch / f"go.{side}.{number}").touch()
            files = [scratch / f"done.{side}.{number}.{rank}" for rank in range(SHARDS)]
            while not all(file.exists() for file in files):
                if time.monotonic() > until or not all(one.is_alive for one in processes):
                    raise RuntimeError("\n".join(one.ended(0.0).said for one in processes))
                time.sleep(LOOK_SECONDS)
            taken[side].append(max(float(file.read_text()) for file in files))
    (scratch / "over").touch()
    ended = [one.ended(until) for one in processes]
    if errors := [one.said for one in ended if one.error]:
        raise RuntimeError(errors[0])
    pairs = zip(taken["fsdp2"][WARM_TURNS:], taken["ours"][WARM_TURNS:], strict=True)
    ratios = [theirs / ours for theirs, ours in pairs]
    milliseconds = {
        f"{side}_step_ms": round(1e3 * statistics.median(each[WARM_TURNS:]) / STEPS, 1)
        for side, each in taken.items()
    }
    say("throughput_vs_fsdp2", ratios, "ratio", shard=SHARDS, **milliseconds)
    theirs, ours = (
        max(one.value for one in ended[first : first + SHARDS]) for first in (0, SHARDS)
    )
    say("memory_vs_fsdp2", ours / theirs, "ratio", ours_mb=round(ours), fsdp2_mb=round(theirs))


def _environment(rank: int, port: int) -> dict[str, str]:
    return place_of(rank) | {
        "WORLD_SIZE": str(SHARDS),
        "LOCAL_WORLD_SIZE": str(SHARDS),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RUN_ID": "bench",
    }


def take_turns(side: str, folder: str, turns: int) -> float:
    """Take a few steps in each turn of this side; returns the peak resident memory in MB."""
    way = {"fsdp2": by_torch, "ours": by_run}[side]()
    rank = distributed.get_rank()
    for number in range(turns):
        while not (Path(folder) / f"go.{side}.{number}").exists():
            time.sleep(LOOK_SECONDS)
        began = time.perf_counter()
        for _ in range(STEPS):
            way()
        seconds = time.perf_counter() - began
        done = Path(folder) / f"done.{side}.{number}.{rank}"
        part = done.with_name(done.name + ".part")
        part.write_text(str(seconds))
        part.rename(done)
    while not (Path(folder) / "over").exists():
        time.sleep(LOOK_SECONDS)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def samples() -> TensorDataset:
    """The words that both train on."""
    torch.manual_seed(1)
    return TensorDataset(torch.randint(VOCABULARY, (512, CONTEXT)))


def by_torch() -> Way:
    """Return a step as in scripts for FSDP2."""
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415 - takes long

    distributed.init_process_group("gloo")
    data = samples()
    model = Decoder(with_unused=False)
    for layer in model.layers.layers:
        fully_shard(layer)
    fully_shard(model)
    optimizer = AdamW(model.parameters())

    batches = endless_batches(data)

    def step() -> None:
        (words,) = next(batches)
        (loss_of(model, words) / words.numel()).backward()  # type: ignore[no-untyped-call]
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def by_run() -> Way:
    """The same with Run."""
    run = Run(seed=1, parallel=Parallel(shard=SHARDS))
    data = samples()
    model = run.prepare(Decoder(with_unused=False), shard=True)
    optimizer = AdamW(model.parameters())
    run.track(model=model, optimizer=optimizer)
    batch = MICROBATCH * SHARDS
    steps = run.steps(cast("Any", data), global_batch=batch, microbatch=MICROBATCH, num_workers=0)

    def one() -> None:
        step = next(steps)
        with step:
            for (words,) in step:
                step.backward(loss_of(model, words), weight=words.numel())
            step.update(optimizer, clip=1.0)

    return one
