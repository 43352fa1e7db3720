"""A loop in stages: the length of samples and the learning rate are those of the stage."""

import argparse
import json
import os
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import TensorDataset
from typing_extensions import override

from spotrun_trainer import Run, params


def samples(length: int) -> TensorDataset:
    x = torch.rand(256, length, generator=torch.Generator().manual_seed(length))
    return TensorDataset(x, x.mean(dim=1, keepdim=True))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--length", type=int, default=4)
    parser.add_argument("--pause", type=float, default=0.0)
    args = parser.parse_args()
    chosen = params(lr=0.1, batch=16, total=1000)

    run = Run(seed=1, every="10 steps")
    data = run.once(lambda: samples(args.length))
    model = run.prepare(Pooled())
    optimizer = torch.optim.SGD(model.parameters(), lr=chosen.lr, momentum=0.9)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step / 100))
    run.track(model=model, optimizer=optimizer, schedule=schedule)
    for step in run.steps(data, global_batch=chosen.batch, microbatch=4, total=chosen.total):
        with step:
            for x, y in step:
                step.backward(mse_loss(model(x), y), mean_of=len(x))
            step.update(optimizer, schedule=schedule)
            # Worse from step 60 on, whatever was learned: a plateau at a known place.
            run.log(val_loss=1 / min(run.step + 1, 60))
        time.sleep(args.pause)
        note(args, run, {"lr": optimizer.param_groups[0]["lr"], "batch": chosen.batch})
    note(args, run, {"ended": True})


class Pooled(nn.Module):
    """A model for samples of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)

    @override
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x.mean(dim=1, keepdim=True))
        return y


def note(args: argparse.Namespace, run: Run, more: dict[str, object]) -> None:
    stage = run.stage.name if run.stage is not None else None
    line: dict[str, object] = {
        "step": run.step,
        "rank": run.rank,
        "size": run.world_size,
        "pid": os.getpid(),
    }
    line |= {"stage": stage, "length": args.length, **more}
    with (args.folder / "trace.jsonl").open("a") as lines:
        lines.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
