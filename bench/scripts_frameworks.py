"""Trainings with the real libraries, for bench/scripts.py: a small model, a step of 20 ms or more.

Each records its steps, saves at intervals, and continues from its newest checkpoint. Without
`--adapter` it does not use spotrun, but the library's own features for that.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn
from typing_extensions import override

if TYPE_CHECKING:
    from accelerate import Accelerator

PAUSE_SECONDS = 0.02
SAVE_STEPS = 25
LONG = 1_000_000


class Steps:
    """The record of a process' steps."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._place = {"rank": int(os.environ["RANK"]), "size": int(os.environ["WORLD_SIZE"])}

    def note(self, step: int) -> None:
        """Record a step."""
        time.sleep(PAUSE_SECONDS)
        line = {"time": time.time(), "pid": os.getpid(), "step": step, **self._place}
        with (self._folder / "trace.jsonl").open("a") as lines:
            lines.write(json.dumps(line) + "\n")


class Model(nn.Module):
    """A layer that returns its loss, like models of Hugging Face."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(10, 10)

    @override
    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": nn.functional.mse_loss(self.layer(x), labels)}


def by_transformers(steps: Steps, saved: Path, *, adapter: bool) -> None:
    from transformers import (  # noqa: PLC0415
        Trainer,
        TrainerCallback,
        TrainerControl,
        TrainerState,
        TrainingArguments,
    )
    from transformers.trainer_utils import get_last_checkpoint  # noqa: PLC0415

    class Note(TrainerCallback):
        def on_step_end(
            self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
        ) -> None:
            steps.note(state.global_step)

    callbacks, newest = [Note()], get_last_checkpoint
    if adapter:
        from spotrun_trainer.integrations import transformers as ours  # noqa: PLC0415

        callbacks.append(ours.SpotrunCallback())
        newest = ours.newest_checkpoint
    saved.mkdir(exist_ok=True)
    arguments = TrainingArguments(
        str(saved), max_steps=LONG, save_steps=SAVE_STEPS, save_total_limit=2,
        per_device_train_batch_size=4, report_to="none", disable_tqdm=True, use_cpu=True,
    )  # fmt: skip
    data = [{"x": torch.randn(10), "labels": torch.randn(10)} for _ in range(4096)]
    trainer = Trainer(Model(), arguments, train_dataset=data, callbacks=callbacks)
    trainer.train(resume_from_checkpoint=newest(str(saved)))


def by_lightning(steps: Steps, saved: Path, *, adapter: bool) -> None:
    from lightning.pytorch import Callback, LightningModule, Trainer  # noqa: PLC0415
    from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: PLC0415

    class Module(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = Model()

        def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
            loss: torch.Tensor = self.model(*batch)["loss"]
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    class Note(Callback):
        def on_train_batch_end(self, trainer: Trainer, *_: object) -> None:
            steps.note(trainer.global_step)

    last = ModelCheckpoint(saved, every_n_train_steps=SAVE_STEPS, filename="last")
    callbacks, newest = [Note(), last], saved / "last.ckpt"
    found = str(newest) if newest.exists() else None
    size = {"num_nodes": int(os.environ["GROUP_WORLD_SIZE"]), "devices": 1}
    if adapter:
        from spotrun_trainer.integrations import lightning as ours  # noqa: PLC0415

        callbacks.append(ours.SpotrunCallback(saved))
        size, found = ours.size_of_world(), ours.newest_checkpoint(saved)
    data = torch.utils.data.TensorDataset(torch.randn(4096, 10), torch.randn(4096, 10))
    trainer = Trainer(
        **size, max_steps=LONG, max_epochs=-1, callbacks=callbacks, logger=False,
        accelerator="cpu", enable_progress_bar=False,
    )  # fmt: skip
    trainer.fit(Module(), torch.utils.data.DataLoader(data, batch_size=4), ckpt_path=found)


def by_accelerate(steps: Steps, saved: Path, *, adapter: bool) -> None:
    from accelerate import Accelerator  # noqa: PLC0415

    accelerator = Accelerator(cpu=True)
    model = Model()
    model, opt = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for step, done in numbered(accelerator, saved, adapter=adapter):
        x = torch.randn(4, 10)
        accelerator.backward(model(x, x)["loss"])
        opt.step()
        opt.zero_grad()
        steps.note(step)
        done(step)


def numbered(
    accelerator: "Accelerator", saved: Path, *, adapter: bool
) -> Iterator[tuple[int, Callable[[int], None]]]:
    """Yield steps from the newest checkpoint on, each with the function to call after it."""
    if adapter:
        from spotrun_trainer.integrations.accelerate import Checkpoints  # noqa: PLC0415

        ours = Checkpoints(accelerator, saved, total_steps=LONG, every_steps=SAVE_STEPS)
        yield from ((step, ours.step_done) for step in range(ours.restore() + 1, LONG))
        return

    def save(step: int) -> None:
        if step % SAVE_STEPS == 0:
            accelerator.save_state(str(saved / str(step)))
            accelerator.wait_for_everyone()
            if accelerator.is_main_process:
                (saved / "newest").write_text(str(step))

    newest = saved / "newest"
    done = int(newest.read_text()) if newest.exists() else 0
    if done:
        accelerator.load_state(str(saved / str(done)))
    yield from ((step, save) for step in range(done + 1, LONG))


WAYS = {"transformers": by_transformers, "lightning": by_lightning, "accelerate": by_accelerate}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--adapter", action="store_true")
    arguments = parser.parse_args()
    train = WAYS[arguments.way]
    train(Steps(arguments.folder), arguments.folder / "saved", adapter=arguments.adapter)


if __name__ == "__main__":
    main()
