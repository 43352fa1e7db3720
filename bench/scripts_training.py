"""A plain DDP training for bench/scripts.py: it does not use spotrun, and saves by itself.

told      rank 0 saves when the script gets SIGTERM, and the next start continues from that
in-place  rank 0 repeatedly overwrites its last snapshot, and handles no signal
"""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

IN_PLACE_EVERY = 5  # steps


class Training:
    """A small model, with ballast in its snapshot so that a write takes some time."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.way: str = arguments.way
        self.save_seconds: float = arguments.save_seconds
        self.folder: Path = arguments.folder
        self.snapshot = arguments.folder / "checkpoints" / "snapshot.pt"
        self.is_told = torch.zeros(1)
        self.step = 0
        model = nn.Linear(10, 10)
        self.ballast = torch.zeros(arguments.ballast_mb << 18)
        if self.snapshot.exists():
            saved: dict[str, Any] = torch.load(self.snapshot, weights_only=True)
            model.load_state_dict(saved["model"])
            self.step = saved["step"]
        self.model = DistributedDataParallel(model)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def run(self) -> None:
        while True:
            x = torch.randn(8, 10)
            self.optimizer.zero_grad()
            nn.functional.mse_loss(self.model(x), x).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self.step += 1
            time.sleep(0.02)
            self.note(step=self.step)
            if self.way == "in-place" and self.step % IN_PLACE_EVERY == 0:
                self.save(self.snapshot)
            if self.way == "told" and self.somebody_is_told():
                self.save_and_end()

    def somebody_is_told(self) -> bool:
        told = self.is_told.clone()
        dist.all_reduce(told)
        return bool(told)

    def save_and_end(self) -> None:
        began = time.time()
        if dist.get_rank() == 0:
            draft = self.snapshot.with_suffix(".draft")
            self.save(draft)
            time.sleep(max(began + self.save_seconds - time.time(), 0.0))
            draft.replace(self.snapshot)
        dist.barrier()  # no rank ends before the save is done
        self.note(saved=self.step, seconds=time.time() - began)
        sys.exit(0)

    def save(self, file: Path) -> None:
        if dist.get_rank() == 0:
            state = {"model": self.model.module.state_dict(), "step": self.step}
            torch.save({**state, "ballast": self.ballast}, file)

    def note(self, **facts: object) -> None:
        line = {"time": time.time(), "rank": dist.get_rank(), "size": dist.get_world_size()}
        with (self.folder / "trace.jsonl").open("a") as lines:
            lines.write(json.dumps({**line, "pid": os.getpid(), **facts}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=["told", "in-place"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--save-seconds", type=float, default=0.0)
    parser.add_argument("--ballast-mb", type=int, default=1)
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    training = Training(arguments)
    if training.way == "told":
        signal.signal(signal.SIGTERM, lambda *_: training.is_told.fill_(1.0))
    training.run()


if __name__ == "__main__":
    main()
