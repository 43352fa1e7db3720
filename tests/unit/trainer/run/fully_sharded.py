"""A training whose model torch divides among the processes of each copy (FSDP2)."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from spotrun_trainer import Parallel, Run
from spotrun_trainer.loop.dealing import Balance
from spotrun_trainer.parallel.division import divisions_in
from spotrun_trainer.parallel.precision import Precision
from spotrun_trainer.step.reduce.compression import Compression
from tests.unit.trainer.run.scripts import CLASSES, FEATURES, Trained
from tests.unit.trainer.run.sharded import SharedModel, losses_of, summed


@dataclass(frozen=True)
class FullySharded(SharedModel):
    """A training, and the processes that hold a copy of the model."""

    shard: int = 2
    tensor: int = 1
    pipeline: int = 1
    schedule: str = "Schedule1F1B"
    forward_seconds: float = 0  # that the first stage takes at least
    is_picky: bool = False  # its loss takes no numbers of a broken world
    rows: int = CLASSES  # of the last layer: its parts differ in size
    clip: float | None = 0.5
    precision: Precision | None = None
    in_blocks: bool = False  # all of the model's parameters
    compress: Compression | None = None
    balance: Balance = "even"

    @property
    def processes(self) -> int:
        """The number of processes of a copy."""
        return self.parallel.size

    @property
    def parallel(self) -> Parallel:
        """The work of each of them."""
        return Parallel(shard=self.shard, tensor=self.tensor, pipeline=self.pipeline)


class Blocks(nn.Module):
    """A sequence of blocks, as models of language are, one of which is too small for two parts."""

    def __init__(self, rows: int = CLASSES) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first: nn.Linear | None = nn.Linear(FEATURES, 8)
        self.blocks = nn.ModuleDict(
            {f"{number}": nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for number in range(3)}
        )
        self.last: nn.Linear | None = nn.Linear(8, rows)
        self.scale: nn.Parameter | None = nn.Parameter(torch.ones(1))  # one part of it is empty
        self.register_buffer("seen", torch.zeros(()))
        self.seen: Tensor | None
        self.seconds = 0.0

    def keep_stage(self, stage: int, stages: int) -> None:
        """Let go of the layers of other stages; the names of those that stay are as before."""
        layers = ["first", *self.blocks, "last"]
        for place, name in enumerate(layers):
            if place * stages // len(layers) == stage:
                continue
            if name in self.blocks:
                del self.blocks[name]
            else:
                setattr(self, name, None)
        if stage > 0:
            self.seen = None
        if stage < stages - 1:
            self.scale = None

    @override
    def forward(self, hidden: Tensor) -> Tensor:
        time.sleep(self.seconds)
        if self.training and self.seen is not None:
            self.seen += hidden.sum()  # which does not depend on how a batch is cut
        for layer in (self.first, *self.blocks.values(), self.last):
            hidden = hidden if layer is None else layer(hidden)
        return hidden if self.scale is None else hidden * self.scale


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
    run = Run(
        1,
        parallel=plan.parallel,
        checkpoint=plan.checkpoint,
        every=plan.every,
        compress=plan.compress,
        balance=plan.balance,
    )
    model: nn.Module = OnlyBlocks() if plan.in_blocks else Blocks(plan.rows)
    if plan.pipeline > 1:
        assert isinstance(model, Blocks), "whose layers can be dealt"
        stage = run.mesh.get_local_rank("pp")
        model.keep_stage(stage, plan.pipeline)
        model.seconds = plan.forward_seconds if stage == 0 else 0
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
    own = {name: way for name, way in plan.items() if _has(model, name)}
    parallelize_module(model, run.mesh["tensor"], own, src_data_rank=None)


def _has(model: nn.Module, name: str) -> bool:
    return any(name == own for own, _ in model.named_modules())


def schedule_of(run: Run, model: nn.Module, plan: FullySharded) -> Callable[[], Any] | None:
    """Return the function that makes a pipeline's schedule; None where a process has all layers."""
    if plan.pipeline == 1:
        return None

    def make() -> Any:
        from torch.distributed import pipelining  # noqa: PLC0415 - takes a second

        mesh = run.mesh["pp"]
        stage, group = mesh.get_local_rank(), mesh.get_group()
        own = pipelining.PipelineStage(model, stage, plan.pipeline, run.device, group=group)
        kind = getattr(pipelining, plan.schedule)
        return kind(own, n_microbatches=4, loss_fn=loss_of, scale_grads=False)

    def loss_of(result: Tensor, classes: Tensor) -> Tensor:
        replica = run._context.group.replica
        if plan.is_picky and replica is not None and replica.lost is not None:
            raise ArithmeticError
        return summed(result, classes)

    return make


def train_fully_sharded(plan: FullySharded, before: Callable[[], None] = lambda: None) -> Trained:
    """The loop as users write it; the weights are whole ones."""
    before()
    run, model, optimizer = begun(plan)
    losses = losses_of(run, model, optimizer, plan, schedule_of(run, model, plan))
    return Trained(losses, own_part(model))


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
    losses = losses_of(run, model, optimizer, plan, schedule_of(run, model, plan))
    flat = run._context.tracked.flatten()
    divisions = divisions_in(flat.values, lambda path: tuple(flat.tensors[path].shape))
    names = {id(one): name for name, one in model.named_parameters()}
    numbers = [names[id(one)] for group in optimizer.param_groups for one in group["params"]]
    pieces = {}
    for path, tensor in flat.tensors.items():
        known = divisions.get(path)
        shape = tuple(tensor.shape)
        where = (known.shape, known.box.offsets) if known else (shape, (0,) * len(shape))
        pieces[_by_name(path, numbers)] = Piece(*where, tensor.detach().clone())
    return Shown(pieces, run.step, losses)


def _by_name(path: str, names: Sequence[str]) -> str:
    """Return a path in which a parameter has its name, not its number in an optimizer."""
    thing, kind, *rest = path.split("/")
    if (thing, kind) != ("optimizer", "state"):
        return path
    return "/".join([thing, kind, names[int(rest[0])], *rest[1:]])


def whole_state(parts: Sequence[Shown]) -> dict[str, Tensor]:
    """Put the tensors of a copy together; what several processes hold is the same in each."""
    state = {}
    for path in dict.fromkeys(path for part in parts for path in part.pieces):
        pieces = [part.pieces[path] for part in parts if path in part.pieces]
        whole = state[path] = torch.empty(pieces[0].whole, dtype=pieces[0].tensor.dtype)
        filled = torch.zeros(pieces[0].whole, dtype=torch.bool)
        for piece in pieces:
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
