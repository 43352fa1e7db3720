"""A checkpoint for which there is no room.

First cause: rank ? ended with exit code 1: ... No space left on device
"""

import torch

with open("/dev/full", "wb") as full:  # noqa: PTH123 - as scripts do
    torch.save({"model": torch.zeros(1 << 20)}, full)
