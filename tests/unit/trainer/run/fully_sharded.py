"""A training whose model torch divides among the processes of each copy (FSDP2)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from typing_extensions import override

from spotrun_trainer import Parallel, Run
from spotrun_trainer.parallel.division import divisions_in
from spotrun_trainer.parallel.precision import Precision
from tests.unit.trainer.run.scripts import CLASSES, FEATURES, Trained
from tests.unit.trainer.run.sharded import SharedModel, losses_of


@dataclass(frozen=True)
class FullySharded(SharedModel):
    """A training, and the processes that hold a copy of the model."""

    shard: int = 2
    tensor: int = 1
    rows: int = CLASSES  # of the last layer: its parts differ in size
    clip: float | None = 0.5
    precision: Precision | None = None
    in_blocks: bool = False  # all of the model's parameters

    @property
    def processes(self) -> int:
        """The number of processes of a copy."""
        return self.shard * self.tensor


class Blocks(nn.Module):
    """A sequence of blocks, as models of language are, one of which is too small for two parts."""

    def __init__(self, rows: int = CLASSES) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Linear(FEATURES, 8)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(3))
        self.last = nn.Linear(8, rows)
        self.scale = nn.Parameter(torch.ones(1))  # one part of it is empty
        self.register_buffer("seen", torch.zeros(()))
        self.seen: Tensor

    @override
    def forward(self, features: Tensor) -> Tensor:
        if self.training:
            self.seen += features.mean()
        hidden = self.first(features)
        for block in self.blocks:
            hidden = block(hidden)
        result: Tensor = self.last(hidden) * self.scale
        return result


class OnlyBlocks(nn.Module):
    """A sequence of blocks and nothing beside them, so that torch keeps no part of it whole."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        first = nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh())
        self.blocks = nn.ModuleList([first, nn.Linear(8, CLASSES)])

    @override
    def forward(self, features: Tensor) -> Tensor:
        for block in self.blocks:
            features = block(features)
        return features


def begun(plan: FullySharded) -> tuple[Run, nn.Module, torch.optim.Optimizer]:
    """Make what is trained, as users write it."""
    parallel = Parallel(shard=plan.shard, tensor=plan.tensor)
    run = Run(1, parallel=parallel, checkpoint=plan.checkpoint, every=plan.every)
    model: nn.Module = OnlyBlocks() if plan.in_blocks else Blocks(plan.rows)
    if plan.tensor > 1:
        divide_layers(model, run)
    model = run.prepare(model, shard=True, precision=plan.precision)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    run.track(model=model, optimizer=optimizer)
    return run, model, optimizer


def divide_layers(model: nn.Module, run: Run) -> None:
    """Divide layers by columns and by rows in turns; the scale stays whole."""
    # Not for all processes of these tests: it takes them a second.
    from torch.distributed.tensor import Replicate  # noqa: PLC0415
    from torch.distributed.tensor.parallel import (  # noqa: PLC0415
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    plan = {
        "first": ColwiseParallel(),
        "blocks.0.0": RowwiseParallel(),
        "blocks.1.0": ColwiseParallel(),
        "blocks.2.0": RowwiseParallel(),
        "last": ColwiseParallel(output_layouts=Replicate()),
    }
    parallelize_module(model, run.mesh["tensor"], plan, src_data_rank=None)


def train_fully_sharded(plan: FullySharded, before: Callable[[], None] = lambda: None) -> Trained:
    """The loop as users write it; the weights are whole ones."""
    before()
    run, model, optimizer = begun(plan)
    return Trained(losses_of(run, model, optimizer, plan), own_part(model))


@dataclass(frozen=True)
class Piece:
    """The part of a tensor that a process holds."""

    whole: tuple[int, ...]
    offsets: tuple[int, ...]
    tensor: Tensor


@dataclass(frozen=True)
class Shown:
    """The state of a process after a training."""

    pieces: dict[str, Piece]  # of all that is tracked
    step: int
    losses: list[float]


def train_and_show(plan: FullySharded, before: Callable[[], None] = lambda: None) -> Shown:
    """Train, from a checkpoint if there is one, and show everything."""
    before()
    run, model, optimizer = begun(plan)
    losses = losses_of(run, model, optimizer, plan)
    flat = run._context.tracked.flatten()
    divisions = divisions_in(flat.values, lambda path: tuple(flat.tensors[path].shape))
    pieces = {}
    for path, tensor in flat.tensors.items():
        known = divisions.get(path)
        shape = tuple(tensor.shape)
        where = (known.shape, known.box.offsets) if known else (shape, (0,) * len(shape))
        pieces[path] = Piece(*where, tensor.detach().clone())
    return Shown(pieces, run.step, losses)


def whole_state(parts: Sequence[Shown]) -> dict[str, Tensor]:
    """Put the tensors of a copy together; what several processes hold is the same in each."""
    state = {}
    for path, first in parts[0].pieces.items():
        whole = state[path] = torch.empty(first.whole, dtype=first.tensor.dtype)
        filled = torch.zeros(first.whole, dtype=torch.bool)
        for part in parts:
            piece = part.pieces[path]
            place = tuple(
                map(slice, piece.offsets, map(int.__add__, piece.offsets, piece.tensor.shape))
            )
            assert not filled[place].any() or torch.equal(whole[place], piece.tensor), path
            whole[place], filled[place] = piece.tensor, True
        assert filled.all(), path
    return state


def own_part(model: nn.Module) -> dict[str, Tensor]:
    """The part of each tensor that this process holds."""
    return {name: getattr(one, "_local_tensor", one) for name, one in model.state_dict().items()}
