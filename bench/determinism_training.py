"""The training of bench/determinism.py: a small model that records every sample it has used.

It continues until it is told that all changes are done, or for a number of steps; then rank 0
writes the hash of its weights.
"""

import argparse
import hashlib
import json
import os
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from typing_extensions import override

from spotrun_trainer import Run

FEATURES = 16
SAMPLES = 1000
MICROBATCH = 2
MICROBATCHES = 8


class Numbered(Dataset[tuple[Tensor, int]]):
    """Random features, and the sample's own number."""

    def __len__(self) -> int:
        return SAMPLES

    @override
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.randn(FEATURES), index  # each sample has its own random numbers


def train(folder: Path, steps: int | None, pause: float, *, deterministic: bool) -> None:
    torch.set_num_threads(1)
    run = Run(
        seed=1, deterministic=deterministic, checkpoint=folder / "checkpoints", every="5 steps"
    )
    layers = (nn.Linear(FEATURES, 32), nn.Dropout(0.1), nn.Linear(32, 1))
    model = run.prepare(nn.Sequential(*layers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    run.track(model=model, optimizer=optimizer)
    batch = MICROBATCH * MICROBATCHES
    for step in run.steps(
        Numbered(), global_batch=batch, microbatch=MICROBATCH, total=steps, num_workers=2
    ):
        seen: list[int] = []
        with step:
            for x, numbers in step:
                seen += numbers.tolist()
                step.backward(model(x).square().sum(), weight=len(x))
            time.sleep(pause)
            step.update(optimizer)
            note(folder, run, step.number, seen, float(step.loss))
        if (folder / "enough").exists():
            run.stop()
    if run.rank == 0:
        weights = b"".join(one.detach().numpy().tobytes() for one in model.parameters())
        (folder / "hash").write_text(hashlib.sha256(weights).hexdigest())


def note(folder: Path, run: Run, step: int, seen: list[int], loss: float) -> None:
    line = {
        "time": time.time(),
        "step": step,
        "rank": run.rank,
        "size": run.world_size,
        "pid": os.getpid(),
        "seen": seen,
        "loss": loss,
    }
    with (folder / "trace.jsonl").open("a") as lines:
        lines.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--plain", action="store_true", help="not in deterministic mode")
    arguments = parser.parse_args()
    train(
        arguments.folder,
        arguments.steps,
        arguments.pause,
        deterministic=not arguments.plain,
    )
