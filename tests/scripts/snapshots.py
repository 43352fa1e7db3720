"""A trainer class that saves and loads snapshots, after "Fault-tolerant training with torchrun"."""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel


class Trainer:
    def __init__(self, model: nn.Module, args: argparse.Namespace) -> None:
        self.args = args
        self.snapshot = args.folder / "snapshot.pt"
        self.step = 0
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        if self.snapshot.exists():
            saved: dict[str, Any] = torch.load(self.snapshot, weights_only=True)
            model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.step = saved["step"]
            print(f"Resuming training from snapshot at step {self.step}", flush=True)
        self.model = DistributedDataParallel(model)

    def save(self) -> None:
        draft = self.snapshot.with_suffix(".draft")
        state = {
            "model": self.model.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
        }
        torch.save(state, draft)
        draft.replace(self.snapshot)

    def train(self) -> None:
        while self.step < self.args.steps:
            generator = torch.Generator().manual_seed(self.step)
            x = torch.randn(8, 10, generator=generator)
            self.optimizer.zero_grad()
            nn.functional.mse_loss(self.model(x), x).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self.step += 1
            time.sleep(self.args.pause)
            self.trace()
            if self.step % self.args.save_every == 0 and dist.get_rank() == 0:
                self.save()
            if self.step == self.args.crash_at:
                self.crash()

    def crash(self) -> None:
        """Once, if there is a file to remember it by, else every time."""
        if dist.get_rank() != dist.get_world_size() - 1:
            return
        memory = self.args.folder / "crashed"
        if self.args.crash_once and memory.exists():
            return
        memory.touch()
        raise ArithmeticError("loss is not finite")

    def trace(self) -> None:
        line = {"time": time.time(), "step": self.step, "rank": dist.get_rank()}
        with (self.args.folder / "trace.jsonl").open("a") as lines:
            lines.write(
                json.dumps({**line, "size": dist.get_world_size(), "pid": os.getpid()}) + "\n"
            )


@record
def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--save-every", type=int, default=5)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that a step takes longer")
    parser.add_argument("--crash-at", type=int, default=0, help="the step after which to fail")
    parser.add_argument("--crash-once", action="store_true")
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    Trainer(nn.Linear(10, 10), args).train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
