"""The device that a process computes on, and the copy of a batch to it."""

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


def default_device(local_rank: int) -> torch.device:
    """Return a GPU for a worker's process, shared if there are too few, or the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", local_rank % torch.cuda.device_count())


def name_of_gpu(device: torch.device) -> str | None:
    """Return a name that no other GPU on any machine has; None for the CPU.

    If NCCL is told to let processes share a GPU, each process returns a name of its own.
    """
    if device.type != "cuda":
        return None
    uuid = str(torch.cuda.get_device_properties(device).uuid)
    is_shared = os.environ.get("NCCL_MULTI_RANK_GPU_ENABLE") == "1"
    return f"{uuid}/{socket.gethostname()}/{os.getpid()}" if is_shared else uuid


def memory_of(device: torch.device) -> int | None:
    """Return the bytes of a GPU's memory; None for the CPU, which shares the machine's."""
    if device.type != "cuda":
        return None
    return int(torch.cuda.get_device_properties(device).total_memory)


def moved(batch: Any, device: torch.device) -> Any:  # noqa: ANN401 - whatever a dataset makes
    """Return a batch with its tensors on a device, also those in tuples, lists and mappings."""
    if device.type == "cpu":
        return batch  # it stays where it was loaded
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, Mapping):
        return {key: moved(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):  # a named one
        return type(batch)(*(moved(value, device) for value in batch))
    if isinstance(batch, tuple | list):
        return type(batch)(moved(value, device) for value in batch)
    return batch


def put(numbers: Sequence[float], device: torch.device) -> Tensor:
    """Return numbers of the host in double precision on a device, without a wait for a GPU.

    A copy from memory that is not pinned ends only when the GPU has done all its queued work.
    """
    on_host = torch.tensor(numbers, dtype=torch.float64)
    if device.type != "cuda":
        return on_host.to(device)
    return on_host.pin_memory().to(device, non_blocking=True)


def with_index(gpu: torch.device) -> torch.device:
    """Return the same GPU with its number, where "cuda" means the one that this thread uses."""
    return torch.empty(0, device=gpu).device
