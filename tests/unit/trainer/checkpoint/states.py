"""Trainings to save and load, and processes that save without a process group."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from spotrun_trainer.checkpoint import Checkpoints
from spotrun_trainer.state.flatten import Flat
from spotrun_trainer.state.tracked import Tracked

NAME = "step-10.g1"


class Held:
    """A class of one's own: whatever it is given, by name."""

    def __init__(self, **content: Any) -> None:
        self.content = content

    def state_dict(self) -> dict[str, Any]:
        return self.content

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.content = state


def tracked(**things: Any) -> Tracked:
    all_of_them = Tracked()
    for name, thing in things.items():
        all_of_them.add(name, thing)
    return all_of_them


def small_training(seed: int = 1, steps: int = 2) -> Tracked:
    """A network with buffers, tied weights and an optimizer that has stepped."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Embedding(50, 16), nn.BatchNorm1d(16), nn.Linear(16, 50, bias=False))
    model[2].weight = model[0].weight
    opt = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(torch.arange(50)), torch.arange(50))
        loss.backward()  # type: ignore[no-untyped-call]
        opt.step()
        opt.zero_grad()
    return tracked(model=model, opt=opt)


@contextlib.contextmanager
def checkpoints(place: Path | str, **options: Any) -> Iterator[Checkpoints]:
    opened = Checkpoints(place, **{"keep": 2, **options})
    try:
        yield opened
    finally:
        opened.close()


def save(
    place: Path | str,
    flat: Flat,
    name: str = NAME,
    *,
    size: int = 1,
    ranks: range | None = None,
    attempt: str = "",
) -> None:
    """Save as some or all ranks of a world do, each from an object of its own."""
    with contextlib.ExitStack() as stack:
        for rank in range(size) if ranks is None else ranks:
            one = stack.enter_context(checkpoints(place, attempt=attempt))
            one.save(name, flat, rank=rank, size=size, extra={"of": name})


def same(one: Flat, other: Flat) -> bool:
    return (
        one.values == other.values
        and one.specs() == other.specs()
        and all(is_same(tensor, other.tensors[name]) for name, tensor in one.tensors.items())
    )


def is_same(one: Tensor, other: Tensor) -> bool:
    """Bit for bit, whatever the type."""
    return one.dtype == other.dtype and torch.equal(as_bytes(one), as_bytes(other))


def as_bytes(tensor: Tensor) -> Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def copied(flat: Flat) -> Flat:
    return Flat({name: one.clone() for name, one in flat.tensors.items()}, dict(flat.values))


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Wait until it holds."""
    until = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < until:
        time.sleep(0.002)
    return holds
