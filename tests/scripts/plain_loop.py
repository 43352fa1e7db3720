"""The shortest DDP script there is, after "Getting started with DDP": a loop, nothing kept."""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that a step takes longer")
    parser.add_argument("--hang-at", type=int, help="the step at which rank 1 stops for good")
    parser.add_argument("--trace", type=Path, help="gets a line of JSON for every step")
    parser.add_argument("--only-size", type=int, help="the only number of processes that it takes")
    args = parser.parse_args()

    dist.init_process_group("gloo")
    if args.only_size not in {None, dist.get_world_size()}:
        raise ValueError(f"num_nodes={args.only_size}, but {dist.get_world_size()} are there")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 5)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for step in range(args.steps):
        if step == args.hang_at and dist.get_rank() == 1:
            time.sleep(3600)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(torch.randn(20, 10)), torch.randn(20, 5))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        time.sleep(args.pause)
        if args.trace is not None:
            trace(args.trace, step)
    dist.destroy_process_group()


def trace(file: Path, step: int) -> None:
    line = {"time": time.time(), "step": step, "rank": dist.get_rank(), "pid": os.getpid()}
    with file.open("a") as lines:
        lines.write(json.dumps({**line, "size": dist.get_world_size()}) + "\n")


if __name__ == "__main__":
    main()
