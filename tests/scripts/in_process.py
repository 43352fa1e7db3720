"""A loop with Run; notes every step that is done, and what its weights are."""

import argparse
import json
import os
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from spotrun_trainer import Run


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that a step takes longer")
    args = parser.parse_args()

    run = Run(seed=1)
    model = run.prepare(nn.Linear(8, 2))
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
            note(args.folder / "trace.jsonl", run, step.number)
            time.sleep(args.pause)


def note(file: Path, run: Run, step: int) -> None:
    line = {"time": time.time(), "step": step, "rank": run.rank, "size": run.world_size}
    with file.open("a") as lines:
        lines.write(json.dumps({**line, "pid": os.getpid()}) + "\n")


if __name__ == "__main__":
    main()
