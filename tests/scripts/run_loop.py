"""A loop with Run in deterministic mode; notes after every step what its weights are."""

import argparse
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from spotrun_trainer import Run


def samples() -> TensorDataset:
    x = torch.randn(512, 8, generator=torch.Generator().manual_seed(0))
    return TensorDataset(x, (x.sum(dim=1) > 0).long())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that a step takes longer")
    parser.add_argument("--compute", type=float, default=0.0, help="seconds, for a microbatch")
    parser.add_argument("--evaluate-at", type=int, default=0, help="the step to evaluate after")
    parser.add_argument("--evaluation", type=float, default=0.0, help="seconds that a batch takes")
    parser.add_argument("--hang-at", type=int, default=0, help="where the last rank hangs, once")
    parser.add_argument("--check-devices", type=int, help="the steps between two checks")
    parser.add_argument("--check-speed", action="store_true")
    args = parser.parse_args()

    if args.check_speed and is_this_node(args.folder / "slow-node"):
        torch.mm = slowed(torch.mm)
    run = Run(
        seed=1,
        deterministic=True,
        every="10 steps",
        check_devices=args.check_devices,
        check_speed=args.check_speed,
    )
    data = run.once(samples)
    model = run.prepare(nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 2)))
    first = next(model.parameters())
    first.register_hook(partial(computed, args.folder / "wrong-node"))  # type: ignore[no-untyped-call]
    first.register_hook(partial(take, args.compute, args.folder / "slow-node"))  # type: ignore[no-untyped-call]
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    run.track(model=model, optimizer=optimizer)

    def slow_loss(model: nn.Module, batch: list[Tensor]) -> Tensor:
        time.sleep(args.evaluation)
        return cross_entropy(model(batch[0]), batch[1])

    for step in run.steps(data, global_batch=16, microbatch=2, total=args.steps, num_workers=1):
        with step:
            for x, y in step:
                loss = cross_entropy(model(x), y, reduction="sum")
                step.backward(loss, weight=y.numel())
            if step.number == args.hang_at and run.rank == run.world_size - 1:
                hang_once(args.folder / "hung")
            step.update(optimizer, clip=1.0)
            run.log(loss=step.loss)
        time.sleep(args.pause)
        note(args.folder / "trace.jsonl", run, model)
        if step.number == args.evaluate_at:
            run.evaluate(model, data, slow_loss, microbatch=32)


def hang_once(memory: Path) -> None:
    if not memory.exists():
        memory.touch()
        threading.Event().wait()


def take(seconds: float, mark: Path, _: Tensor) -> None:
    """Take so long for a microbatch; on one node three times as long."""
    time.sleep(seconds * (3 if is_this_node(mark) else 1))


def computed(mark: Path, gradient: Tensor) -> Tensor:
    """Return a gradient as the device of this node computes it: on one node some are wrong."""
    if not is_this_node(mark):
        return gradient
    gradient = gradient.clone()
    gradient.view(torch.int32).view(-1)[0] ^= 1 << 20
    return gradient


def slowed(multiply: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def slowly(*given: Tensor, **out: Tensor) -> Tensor:
        time.sleep(0.05)
        return multiply(*given, **out)

    return slowly


def is_this_node(mark: Path) -> bool:
    try:
        return mark.read_text() == os.environ["NODE"]
    except FileNotFoundError:
        return False


def note(trace: Path, run: Run, model: nn.Module) -> None:
    weights = hashlib.sha256()
    for parameter in model.parameters():
        weights.update(parameter.detach().numpy().tobytes())
    line = {"time": time.time(), "step": run.step, "rank": run.rank, "size": run.world_size}
    with trace.open("a") as lines:
        lines.write(
            json.dumps({**line, "pid": os.getpid(), "weights": weights.hexdigest()[:16]}) + "\n"
        )


if __name__ == "__main__":
    main()
