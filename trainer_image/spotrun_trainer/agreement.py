"""The same state on all processes: given by one, and compared now and then."""

from collections.abc import Mapping

import torch
from torch import Tensor

from spotrun_trainer.commit import CHECKSUM_BITS
from spotrun_trainer.group import Group
from spotrun_trainer.handover import parts
from spotrun_trainer.rng import key_of
from spotrun_trainer.tracked import Tracked

_CHUNK_BYTES = 64 * 2**20
_WHOLE_NUMBERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def share(tensors: Mapping[str, Tensor], group: Group, device: torch.device) -> None:
    """Give all processes the values that rank 0 has; raises ValueError if layouts differ."""
    if group.size == 1:
        return
    layout = repr([(name, tensor.dtype, tensor.shape) for name, tensor in tensors.items()])
    own = key_of(*layout.encode()) >> (64 - CHECKSUM_BITS)
    said = torch.tensor([own], dtype=torch.float64, device=device)
    group.all_reduce(said).wait()
    if said.item() != own * group.size:
        raise ValueError(
            "the processes track different things: all of them have to build the same model, in "
            "the same order and sizes, whatever their rank"
        )
    for part in parts(list(tensors.values()), _CHUNK_BYTES):
        flat = torch.cat([tensor.detach().flatten() for tensor in part]).to(device)
        group.broadcast(flat, 0).wait()
        pieces = torch.split(flat, [tensor.numel() for tensor in part])
        for tensor, piece in zip(part, pieces, strict=True):
            tensor.detach().copy_(piece.view_as(tensor))


def checksum(tracked: Tracked) -> int:
    """A number that hardly stays the same if a bit of the state changes."""
    tensors = tracked.flatten().tensors.values()
    sums = [_bits(tensor).sum(dtype=torch.int64) for tensor in tensors]
    numbers = torch.stack([sum_.cpu() for sum_ in sums]).tolist() if sums else []
    return key_of(*numbers) >> (64 - CHECKSUM_BITS)


def _bits(tensor: Tensor) -> Tensor:
    flat = tensor.detach().flatten()
    return flat.view(_WHOLE_NUMBERS[min(flat.element_size(), 8)])
