"""Several processes on one GPU, as NCCL allows from 2.30 on."""

import torch


def can_be_shared() -> bool:
    """Whether the processes of a world can share this machine's GPU over NCCL."""
    return torch.cuda.is_available() and torch.cuda.nccl.version() >= (2, 30)  # type: ignore[no-untyped-call]


def neighbours(rank: int) -> dict[str, str]:
    """NCCL takes each process for a machine of its own, so that several may share a GPU."""
    return {
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "NCCL_HOSTID": f"machine {rank}",
        "NCCL_MULTI_RANK_GPU_ENABLE": "1",
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_NET": "Socket",
    }
