"""Messages of `keep` between all processes, over the script's own process group."""

import os
from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor

from spotrun_trainer.kept.agreement import Claim

_PIECE_BYTES = 32 << 20
"""The memory of a GPU that is used for it."""


def check_group(environment: Mapping[str, str] = os.environ) -> None:
    """Raise ValueError if a process group is needed and there is none yet."""
    size = int(environment.get("WORLD_SIZE") or 1)
    if size > 1 and not dist.is_initialized():
        raise ValueError(
            f"keep was called without a process group, and there are {size} processes, which have "
            "to agree: call it after init_process_group"
        )


def world_size() -> int:
    """Return the number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Return this process's place among them."""
    return dist.get_rank() if dist.is_initialized() else 0


def all_claims(own: Claim) -> list[Claim]:
    """Return the claims of all, by rank."""
    if not dist.is_initialized():
        return [own]
    mine = torch.tensor(own, dtype=torch.int64, device=_device())
    all_of_them = [torch.empty_like(mine) for _ in range(world_size())]
    dist.all_gather(all_of_them, mine)
    return [Claim(*one.tolist()) for one in all_of_them]


def bytes_from(source: int, memory: Tensor, *, lacks: bool) -> Tensor:
    """Return one rank's bytes on the ranks that lack them; all ranks take part."""
    device = _device()
    length = torch.tensor([len(memory)], dtype=torch.int64, device=device)
    dist.broadcast(length, source)
    if lacks:
        memory = torch.empty(int(length), dtype=torch.uint8)
    for begin in range(0, int(length), _PIECE_BYTES):
        size = min(_PIECE_BYTES, int(length) - begin)
        is_read = lacks or rank() == source
        piece = memory[begin : begin + size] if is_read else memory.new_empty(size)
        message = piece.to(device)
        dist.broadcast(message, source)
        if lacks and message is not piece:
            piece.copy_(message)
    return memory


def wait_for_all() -> None:
    """Return once all processes have called this."""
    if dist.is_initialized():
        dist.all_reduce(torch.zeros(1, device=_device()))


def _device() -> torch.device:
    """Return the CPU if the group takes tensors there, else this process's GPU."""
    if "cpu:" in dist.get_backend_config() or dist.get_backend() == dist.Backend.GLOO:
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())
