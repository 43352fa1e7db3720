"""A plain DDP training that keeps its state, and workers whose memory a test holds."""

import hashlib
import json
import os
import signal
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

import spotrun_trainer
from spotrun_trainer.checkpoint.host_memory import bytes_of
from spotrun_trainer.kept import image
from spotrun_trainer.kept.handle import Kept
from spotrun_trainer.kept.slots import Slots
from spotrun_trainer.process.node_memory import VARIABLE, offer_memory, offered_memory

GLOBAL_BATCH = 8


class Worker:
    """The memory of a worker; `end` is the loss of its node."""

    def __init__(self) -> None:
        self.env: dict[str, str] = {}
        offer_memory(self.env)
        self.files = offered_memory(self.env)
        self.end = weakref.finalize(self, close, self.files)

    @property
    def step(self) -> int | None:
        """The step of the newest state that is whole."""
        newest = Slots(self.files).newest()
        return newest[0].step if newest is not None else None


def close(files: Iterable[Path]) -> None:
    """Let go of memory that this process has offered."""
    for file in files:
        os.close(int(file.name))


def on(*workers: Worker) -> Any:
    """The environment of each rank, where each worker has one process."""

    def by_rank(rank: int) -> dict[str, str]:
        return {"RANK": str(rank), "LOCAL_RANK": "0", VARIABLE: workers[rank].env[VARIABLE]}

    return by_rank


class Parts:
    """The objects of a training."""

    def __init__(self, width: int = 8) -> None:
        torch.manual_seed(7)
        self.width = width
        self.model = nn.Sequential(nn.Linear(width, width), nn.Dropout(0.1), nn.Linear(width, 4))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 3)

    @property
    def things(self) -> dict[str, Any]:
        return {"model": self.model, "optimizer": self.optimizer, "schedule": self.schedule}

    def digest(self) -> str:
        """The bits of the weights and of the optimizer's state."""
        tensors: list[Tensor] = [*self.model.state_dict().values()]
        for state in self.optimizer.state.values():
            tensors += [one for one in state.values() if isinstance(one, Tensor)]
        found = hashlib.sha256()
        for tensor in tensors:
            found.update(bytes_of(tensor.detach().contiguous()))
        return found.hexdigest()


def train(
    total: int, *, folder: str = "", width: int = 8, step: int = 0, file: str = "", **options: Any
) -> dict[str, Any]:
    """Train to so many steps; return where it began, and the bits at its end."""
    dist.init_process_group("gloo")
    parts = Parts(width)
    if file and Path(file).exists():
        step = load_file(parts, file)
    kept = spotrun_trainer.keep(step=step, seed=1, **parts.things, **options)
    began = kept.step
    model = DistributedDataParallel(parts.model)
    for number in range(kept.step, total):
        make_step(parts, model, number)
        kept.save()
        if folder:
            note(folder, kept)
    digest = parts.digest()
    dist.destroy_process_group()
    return {"began": began, "step": kept.step, "digest": digest}


def make_step(parts: Parts, model: nn.Module, step: int) -> None:
    whole = torch.randn(GLOBAL_BATCH, parts.width, generator=torch.Generator().manual_seed(step))
    rank, size = dist.get_rank(), dist.get_world_size()
    own = whole[rank::size]
    parts.optimizer.zero_grad()
    mse_loss(model(own), own[:, :4]).backward()  # type: ignore[no-untyped-call]
    parts.optimizer.step()
    parts.schedule.step()


def note(folder: str, kept: Kept) -> None:
    """Note that a step is done and kept."""
    with (Path(folder) / f"rank-{dist.get_rank()}.jsonl").open("a") as lines:
        lines.write(json.dumps(kept.step) + "\n")


def noted(folder: Path, rank: int) -> int:
    """The last step that a rank has noted."""
    file = folder / f"rank-{rank}.jsonl"
    text = file.read_text() if file.exists() else ""
    return max((json.loads(line) for line in text.rpartition("\n")[0].splitlines()), default=0)


def save_file(parts: Parts, step: int, file: str) -> None:
    states = {name: thing.state_dict() for name, thing in parts.things.items()}
    torch.save({"step": step, **states}, file)


def load_file(parts: Parts, file: str) -> int:
    saved: dict[str, Any] = torch.load(file, weights_only=True)
    for name, thing in parts.things.items():
        thing.load_state_dict(saved[name])
    return int(saved["step"])


def train_to_file(total: int, file: str) -> None:
    """Train alone, without keeping anything, and save."""
    dist.init_process_group("gloo")
    parts = Parts()
    model = DistributedDataParallel(parts.model)
    for number in range(total):
        torch.manual_seed(number)
        make_step(parts, model, number)
    if dist.get_rank() == 0:
        save_file(parts, total, file)
    dist.barrier()


def train_and_die_amid_save(total: int, dies_at: int) -> None:
    """Be killed when half of a state is copied."""
    as_ever, copied = image._copy, list[int]()

    def copy(source: Tensor, room: Tensor) -> None:
        copied.append(1)
        if len(copied) > per_save * (dies_at - 1) + per_save // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        as_ever(source, room)

    per_save = 4 + 3 * 4  # weights; AdamW's step and two moments of each
    image._copy = copy
    train(total)


def samples_seen(batches: Iterable[Tensor]) -> list[int]:
    return [int(sample) for batch in batches for sample in batch]
