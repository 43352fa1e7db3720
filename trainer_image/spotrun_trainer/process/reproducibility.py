"""The conditions for equal bits: a sum depends on more than the order of its parts."""

from collections.abc import Mapping
from typing import Any

import torch


def facts(device: torch.device) -> dict[str, Any]:
    """Return the conditions under which deterministic mode gives equal bits."""
    is_gpu = device.type == "cuda"
    return {
        "torch": torch.__version__,
        "accelerator": torch.cuda.get_device_name(device) if is_gpu else "none",
        "threads": torch.get_num_threads(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
    }


def check(saved: Mapping[str, Any] | None, here: Mapping[str, Any]) -> None:
    """Raise ValueError unless a checkpoint was made under the same conditions."""
    if saved is None:
        raise ValueError(
            "deterministic=True cannot continue from a checkpoint that was made without it, "
            "because the bits would differ: start a new training, or continue without it"
        )
    differing = [
        f"{name} was {saved.get(name)} and is {value}"
        for name, value in here.items()
        if saved.get(name) != value
    ]
    if differing:
        raise ValueError(
            f"deterministic=True cannot continue from this checkpoint: {', '.join(differing)}; "
            "continue under the same conditions, or without it"
        )
