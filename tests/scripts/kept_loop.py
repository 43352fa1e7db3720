"""A plain DDP loop with `keep`: the bits of its weights at each step can be compared."""

import argparse
import hashlib
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import spotrun_trainer

GLOBAL_BATCH = 12


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that a step takes longer")
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    kept = spotrun_trainer.keep(model=model, optimizer=optimizer, seed=0)
    parallel = DistributedDataParallel(model)
    while kept.step < args.steps:
        whole = torch.randn(GLOBAL_BATCH, 10, generator=torch.Generator().manual_seed(kept.step))
        x = whole[dist.get_rank() :: dist.get_world_size()]
        optimizer.zero_grad()
        nn.functional.mse_loss(parallel(x), x).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        time.sleep(args.pause)
        kept.save()
        trace(args.folder, kept.step, digest(model))
    dist.destroy_process_group()


def digest(model: nn.Module) -> str:
    weights = torch.cat([one.detach().flatten() for one in model.parameters()])
    return hashlib.sha256(bytes(weights.view(torch.uint8).tolist())).hexdigest()[:16]


def trace(folder: Path, step: int, weights: str) -> None:
    line = {"time": time.time(), "step": step, "rank": dist.get_rank(), "weights": weights}
    with (folder / "trace.jsonl").open("a") as lines:
        lines.write(json.dumps({**line, "size": dist.get_world_size(), "pid": os.getpid()}) + "\n")


if __name__ == "__main__":
    main()
