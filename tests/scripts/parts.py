"""A loop with Run whose model two processes hold together; notes each step and its weights."""

import argparse
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional
from torch.utils.data import TensorDataset
from typing_extensions import override

from spotrun_trainer import Parallel, Run

PARTS, UNITS = 2, 16


class SumOverParts(torch.autograd.Function):
    """Adds up what the parts have computed; the loss that follows is the same on all of them."""

    @staticmethod
    @override
    def forward(_context: Any, part: Tensor) -> Tensor:
        whole = part.clone()
        distributed.all_reduce(whole)
        return whole

    @staticmethod
    @override
    def backward(_context: Any, *gradients: Tensor) -> Tensor:
        return gradients[0]


class Part(nn.Module):
    """Some of the hidden units of a small network."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(distributed.get_rank())
        self.into = nn.Linear(8, UNITS // PARTS)
        self.out = nn.Linear(UNITS // PARTS, 2, bias=False)

    @override
    def forward(self, x: Tensor) -> Tensor:
        whole: Tensor = SumOverParts.apply(self.out(torch.tanh(self.into(x))))
        return whole


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that a step takes longer")
    parser.add_argument("--by-torch", action="store_true", help="torch shards the model")
    args = parser.parse_args()

    if args.by_torch:
        run = Run(seed=1, parallel=Parallel(shard=PARTS))
        whole = nn.Sequential(nn.Linear(8, UNITS), nn.Tanh(), nn.Linear(UNITS, 2))
        model: nn.Module = run.prepare(whole, shard=True)
    else:
        run = Run(seed=1, deterministic=True, shards=PARTS)
        model = run.prepare(Part())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    run.track(model=model, optimizer=optimizer)
    x = torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
    data = TensorDataset(x, (x.sum(dim=1) > 0).long())
    for step in run.steps(data, global_batch=16, microbatch=2, total=args.steps, num_workers=0):
        with step:
            for features, classes in step:
                loss = functional.cross_entropy(model(features), classes, reduction="sum")
                step.backward(loss, weight=len(classes))
            step.update(optimizer)
            note(args.folder / "trace.jsonl", run, step.number, model)
            time.sleep(args.pause)


def note(file: Path, run: Run, step: int, model: nn.Module) -> None:
    parts: list[Tensor] = [
        value.to_local() if hasattr(value, "to_local") else value
        for value in model.state_dict().values()
    ]
    bits = b"".join(value.numpy().tobytes() for value in parts)
    line = {
        "time": time.time(),
        "step": step,
        "rank": run.rank,
        "size": run.world_size,
        "pid": os.getpid(),
        "part": distributed.get_rank(),
        "weights": hashlib.sha256(bits).hexdigest()[:16],
    }
    with file.open("a") as lines:
        lines.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
