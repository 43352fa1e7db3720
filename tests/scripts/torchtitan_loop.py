"""torchtitan's own loop and checkpointer, on CPUs: only the model and its step are small.

torchtitan itself needs an accelerator for the rest of its Trainer.
"""

import argparse
import contextlib
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torchtitan.components.checkpointer import CheckpointManager
from torchtitan.distributed import utils as dist_utils
from torchtitan.trainer import Trainer
from typing_extensions import override

from spotrun_trainer.integrations.torchtitan import follow

PAUSE_SECONDS = 0.02


class Steps:
    """A data loader, or a schedule, of which nothing is kept but how far it is."""

    def __init__(self) -> None:
        self.done = 0

    def state_dict(self) -> dict[str, Any]:
        return {"done": self.done}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.done = state["done"]


class SmallTrainer(Trainer):
    """A Trainer whose parts that need an accelerator are left out."""

    def __init__(self, steps: int, folder: Path, interval: int) -> None:
        saves = CheckpointManager.Config(enable=True, interval=interval, last_save_model_only=False)
        nothing = SimpleNamespace(
            enable=False,
            build=lambda **_: contextlib.nullcontext(SimpleNamespace(step=lambda: None)),
        )
        self.config: Any = SimpleNamespace(
            training=SimpleNamespace(steps=steps, disable_cuda_graphs=True),
            comm=SimpleNamespace(train_timeout_seconds=100),
            checkpoint=saves,
            profiler=nothing,
            validator=nothing,
            dump_folder=str(folder),
        )
        self.parallel_dims: Any = SimpleNamespace(
            get_all_one_dimensional_meshes=dict, world_size=dist.get_world_size()
        )
        self.step = self.ntokens_seen = 0
        self.gc_handler: Any = SimpleNamespace(run=lambda _: None)
        self.metrics_processor: Any = SimpleNamespace(log=lambda *_, **__: None, close=lambda: None)
        self.dataloader: Any = Steps()
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.ddp = DistributedDataParallel(self.model)
        optimizers: Any = self.optimizer
        schedule: Any = Steps()
        self.checkpointer = CheckpointManager(
            saves, dataloader=self.dataloader, model_parts=[self.model], optimizers=optimizers,
            lr_schedulers=schedule, states={"train_state": self}, sd_adapter=None,
            base_folder=str(folder),
        )  # fmt: skip

    @override
    def batch_generator(self, data_iterable: Any) -> Any:
        while True:
            yield torch.randn(8, 4)

    @override
    def train_step(self, data_iterator: Any) -> None:
        time.sleep(PAUSE_SECONDS)
        loss: torch.Tensor = self.ddp(next(data_iterator)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.dataloader.done += 1
        self.metrics_processor.log(self.step, loss.item(), loss.item(), 0.0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    steps = parser.parse_args().steps
    dist.init_process_group("gloo")
    dist_utils.set_pg_timeouts = lambda **_: None  # it asks CUDA for its device
    trainer = SmallTrainer(steps, Path(os.environ["SPOTRUN_CHECKPOINT"]), interval=25)
    follow(trainer)
    trainer.train()
    trainer.close()
    assert trainer.dataloader.done == trainer.step


if __name__ == "__main__":
    main()
