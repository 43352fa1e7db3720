"""A checksum of tensors' bits: two processes compare it in place of the tensors."""

from collections.abc import Iterable

import torch
from torch import Tensor

from spotrun_trainer.process.rng import key_of

CHECKSUM_BITS = 32  # their sum over two million processes is still exact in a float64

_SUMMED_AT_ONCE = 2**24  # numbers; a sum copies them, with 8 bytes for each
_SMALL = 2**14  # numbers; larger tensors are summed separately
_TOGETHER = 2**8  # small tensors that are put end to end
_ROW = 2**10  # numbers of them in one sum
_WHOLE_NUMBERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def checksum_of(tensors: Iterable[Tensor]) -> int:
    """Return a number of CHECKSUM_BITS that depends on every bit of the tensors."""
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
