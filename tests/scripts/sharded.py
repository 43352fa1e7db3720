"""A loop with Run whose model torch shards over two processes; notes each step and its weights."""

import argparse
import time
from pathlib import Path

import torch
from parts import note, samples
from torch import nn
from torch.nn import functional

from spotrun_trainer import Parallel, Run


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that a step takes longer")
    args = parser.parse_args()

    run = Run(seed=1, parallel=Parallel(shard=2))
    layers = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
    model = run.prepare(layers, shard=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    run.track(model=model, optimizer=optimizer)
    for step in run.steps(samples(), global_batch=16, microbatch=2, total=args.steps):
        with step:
            for features, classes in step:
                loss = functional.cross_entropy(model(features), classes, reduction="sum")
                step.backward(loss, weight=len(classes))
            step.update(optimizer, clip=1.0)
            own = [one.to_local() for one in model.state_dict().values()]
            note(args.folder / "trace.jsonl", run, step.number, own)
            time.sleep(args.pause)


if __name__ == "__main__":
    main()
