"""Several epochs over a dataset with a DistributedSampler, after "Multi GPU training with DDP"."""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    model.eval()
    with torch.no_grad():
        right = (model(x).argmax(dim=1) == y).float().mean()
    model.train()
    dist.all_reduce(right, op=dist.ReduceOp.SUM)
    return float(right) / dist.get_world_size()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    x = torch.randn(256, 2)
    y = (x.sum(dim=1) > 0).long()
    dataset = TensorDataset(x, y)
    sampler: DistributedSampler[tuple[Tensor, ...]] = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=16, sampler=sampler, num_workers=1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    checkpoint, first = args.folder / "model.pt", 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.module.load_state_dict(saved["model"])
        first = saved["epoch"] + 1
    for epoch in range(first, args.epochs):
        sampler.set_epoch(epoch)
        for features, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(features), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        found = accuracy(model, x, y)
        if dist.get_rank() == 0:
            draft = checkpoint.with_suffix(".draft")
            torch.save({"model": model.module.state_dict(), "epoch": epoch}, draft)
            draft.replace(checkpoint)
            line = {"time": time.time(), "step": epoch, "rank": 0, "pid": os.getpid()}
            with (args.folder / "trace.jsonl").open("a") as lines:
                lines.write(
                    json.dumps({**line, "size": dist.get_world_size(), "accuracy": found}) + "\n"
                )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
