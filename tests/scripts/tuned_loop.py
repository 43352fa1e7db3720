"""A loop whose learning rate and width a search chooses; it tells its loss on held-out samples."""

import argparse
import json
import os
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import TensorDataset

from spotrun_trainer import Run, params


def samples(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(512, 1, generator=torch.Generator().manual_seed(seed)) * 6 - 3
    return x, torch.sin(2 * x)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that a step takes longer")
    parser.add_argument("--note", type=Path, help="a file for the time of every step")
    args = parser.parse_args()
    if args.note:
        note(args.note, 0)  # its imports are done
    chosen = params(lr=0.01, width=16, steps=300)
    run = Run(seed=1, deterministic=True, every="50 steps")
    data = run.once(lambda: TensorDataset(*samples(0)))
    width = chosen["width"]
    model = run.prepare(nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=chosen["lr"])
    run.track(model=model, optimizer=optimizer)
    held_out_x, held_out_y = samples(1)
    for step in run.steps(data, global_batch=32, microbatch=32, total=chosen["steps"]):
        with step:
            for x, y in step:
                step.backward(mse_loss(model(x), y, reduction="sum"), weight=y.numel())
            step.update(optimizer)
        time.sleep(args.pause)
        if args.note:
            note(args.note, step.number)
        if step.number % 50 == 0:
            with torch.no_grad():
                run.log(val_loss=mse_loss(model(held_out_x), held_out_y).item())


def note(file: Path, step: int) -> None:
    line = {"job": os.environ["SPOTRUN_JOB"], "step": step, "time": time.time()}
    with file.open("a") as lines:
        lines.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
