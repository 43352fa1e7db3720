"""Equal state on all processes: copied from one at the start, and compared now and then."""

import json
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.optim import Optimizer

from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.state_transfer import parts
from spotrun_trainer.parallel.local import local
from spotrun_trainer.process.checksum import CHECKSUM_BITS, checksum_of
from spotrun_trainer.process.rng import key_of
from spotrun_trainer.state.tracked import Tracked

_CHUNK_BYTES = 64 * 2**20


def share(tensors: Mapping[str, Tensor], group: Group, device: torch.device) -> None:
    """Copy rank 0's values to all processes; raises ValueError if layouts differ."""
    if group.size == 1:
        return
    layout = repr([(name, tensor.dtype, tensor.shape) for name, tensor in tensors.items()])
    own = key_of(*layout.encode()) >> (64 - CHECKSUM_BITS)
    (total,) = group.total(torch.tensor([own], dtype=torch.float64, device=device))
    if total != own * group.size:
        raise ValueError(
            "the processes track different objects: all of them must build the same model, in the "
            "same order and sizes, independent of their rank"
        )
    for part in parts(list(tensors.values()), _CHUNK_BYTES):
        flat = torch.cat([tensor.detach().flatten().to(device) for tensor in part])
        group.broadcast(flat, 0).wait()
        pieces = torch.split(flat, [tensor.numel() for tensor in part])
        for tensor, piece in zip(part, pieces, strict=True):
            tensor.detach().copy_(piece.view_as(tensor))


def texts_of_all(group: Group, text: str, device: torch.device) -> list[str]:
    """Return a text of each process, by rank."""
    own = torch.tensor(list(text.encode()), dtype=torch.uint8, device=device)
    lengths = group.all_gather(torch.tensor([len(own)], device=device)).flatten().tolist()
    group.prove(device)
    padded = own.new_zeros(max(lengths))
    padded[: len(own)] = own
    rows = group.all_gather(padded).tolist()
    group.prove(device)
    return [bytes(row[:size]).decode() for row, size in zip(rows, lengths, strict=True)]


def check_stages(names: Sequence[str], group: Group, device: torch.device) -> None:
    """Raise ValueError, on all stages of a copy, if two of them have a parameter of one name."""
    stages = group.along("pp")
    seen = set[str]()
    for stage in range(stages.size if stages.size > 1 else 0):
        theirs: list[str] = json.loads(stages.text_from(stage, json.dumps(names), device=device))
        if twice := sorted(seen.intersection(theirs)):
            raise ValueError(
                f"two stages have a parameter called {twice[0]}. If these are two layers, keep "
                "their names in the whole model: put layers into an nn.ModuleDict by numbers, and "
                "let each stage delete those of the others. If it is one weight that is used "
                "twice, each stage would train its own copy: use it on one stage only"
            )
        seen.update(theirs)


def checksum(tracked: Tracked) -> int:
    """Return a checksum of the whole tracked state."""
    return checksum_of(tracked.flatten().tensors.values())


def checksum_of_weights(optimizers: Sequence[Optimizer], part: int = 0, parts: int = 1) -> int:
    """Return a checksum of the optimizers' weights, or one part of them, and learning rates.

    A schedule that some processes lack shows in the rates before it shows in the weights.
    """
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    rates = torch.tensor([float(group.get("lr", 0.0)) for group in groups], dtype=torch.float64)
    return checksum_of([rates, *weights_of(optimizers)[part::parts]])


def weights_of(optimizers: Sequence[Optimizer]) -> list[Tensor]:
    """Return all tensors that optimizers update here, in their order."""
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    return [local(weight) for group in groups for weight in group["params"]]
