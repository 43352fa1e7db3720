"""Equal state on all processes: copied from one at the start, and compared now and then."""

import json
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor
from torch.optim import Optimizer

from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.state_transfer import parts
from spotrun_trainer.parallel.local import local
from spotrun_trainer.process.rng import key_of
from spotrun_trainer.state.tracked import Tracked
from spotrun_trainer.step.vote import CHECKSUM_BITS

_CHUNK_BYTES = 64 * 2**20
_SUMMED_AT_ONCE = 2**24  # numbers; a sum copies them, with 8 bytes for each
_SMALL = 2**14  # numbers; larger tensors are summed separately
_TOGETHER = 2**8  # small tensors that are put end to end
_ROW = 2**10  # numbers of them in one sum
_WHOLE_NUMBERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def share(tensors: Mapping[str, Tensor], group: Group, device: torch.device) -> None:
    """Copy rank 0's values to all processes; raises ValueError if layouts differ."""
    if group.size == 1:
        return
    layout = repr([(name, tensor.dtype, tensor.shape) for name, tensor in tensors.items()])
    own = key_of(*layout.encode()) >> (64 - CHECKSUM_BITS)
    total = torch.tensor([own], dtype=torch.float64, device=device)
    group.all_reduce(total).wait()
    if total.item() != own * group.size:
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
    padded = own.new_zeros(max(lengths))
    padded[: len(own)] = own
    rows = group.all_gather(padded).tolist()
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
    return _number_of(tracked.flatten().tensors.values())


def checksum_of_weights(optimizers: Sequence[Optimizer], part: int = 0, parts: int = 1) -> int:
    """Return a checksum of the optimizers' weights, or one part of them, and learning rates.

    A schedule that some processes lack shows in the rates before it shows in the weights.
    """
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    rates = torch.tensor([float(group.get("lr", 0.0)) for group in groups], dtype=torch.float64)
    return _number_of([rates, *weights_of(optimizers)[part::parts]])


def weights_of(optimizers: Sequence[Optimizer]) -> list[Tensor]:
    """Return all tensors that optimizers update here, in their order."""
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    return [local(weight) for group in groups for weight in group["params"]]


def _number_of(tensors: Iterable[Tensor]) -> int:
    sums: dict[torch.device, list[Tensor]] = {}
    small: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
    for tensor in tensors:
        if tensor.numel() > _SMALL:
            sums.setdefault(tensor.device, []).append(_sum_of(tensor).reshape(1))
        else:
            small.setdefault((tensor.device, tensor.dtype), []).append(tensor)
    for (device, _), several in small.items():
        for start in range(0, len(several), _TOGETHER):
            sums.setdefault(device, []).extend(_sums_in_rows(several[start : start + _TOGETHER]))
    numbers = [one for alike in sums.values() for one in torch.cat(alike).tolist()]
    return key_of(*numbers) >> (64 - CHECKSUM_BITS)


def _sums_in_rows(tensors: list[Tensor]) -> Iterable[Tensor]:
    """Return sums over small tensors put end to end, because a sum for each would take long."""
    with torch.no_grad():
        bits = _bits(torch._C._nn.flatten_dense_tensors(tensors))  # noqa: SLF001 - as DDP does
    num_in_rows = bits.numel() // _ROW * _ROW
    rows, rest = bits[:num_in_rows].view(-1, _ROW), bits[num_in_rows:]
    # Weights, so that swapped values show as well; odd, or the highest bit would be shifted out.
    places = torch.arange(1, 2 * _ROW, 2, device=bits.device)
    return (rows * places).sum(1), (rest * places[: len(rest)]).sum().reshape(1)


def _sum_of(tensor: Tensor) -> Tensor:
    pieces = torch.split(_bits(tensor), _SUMMED_AT_ONCE)
    sums = [piece.sum(dtype=torch.int64) for piece in pieces]
    return sums[0] if len(sums) == 1 else torch.stack(sums).sum()


def _bits(tensor: Tensor) -> Tensor:
    flat = tensor.detach().flatten()
    return flat.view(_WHOLE_NUMBERS[min(flat.element_size(), 8)])
