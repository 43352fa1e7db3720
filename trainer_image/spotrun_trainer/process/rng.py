"""Random numbers that are a function of (seed, step, microbatch), not of the process or time.

So dropout is the same at every world size, a repeated step draws the same numbers again, and a
checkpoint need not contain any state of them.
"""

import hashlib
import random
import struct
import sys

import torch


def key_of(*parts: int) -> int:
    """Return 64 bits that look unrelated for any two tuples of whole numbers."""
    packed = struct.pack(f"<{len(parts)}q", *parts)
    return int.from_bytes(hashlib.blake2b(packed, digest_size=8).digest(), "little")


def seed_all(*parts: int) -> None:
    """Seed the generators of Python, of torch, and of numpy if the program uses it."""
    key = key_of(*parts)
    random.seed(key)
    # Not torch.manual_seed: before CUDA is in use that takes 170 us and stores each call.
    torch.default_generator.manual_seed(key)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(key)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(key & 0xFFFF_FFFF)
