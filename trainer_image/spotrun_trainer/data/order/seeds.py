"""Random numbers that depend on the sample, not on the process that loads it."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

import torch


def sample_seed(seed: int, epoch: int, index: int) -> int:
    """Return 63 bits for this sample alone, in this epoch of this training."""
    digest = blake2b(f"sample {seed} {epoch} {index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def seed_generators(value: int) -> None:
    """Seed the global generators of Python, of torch on the CPU and of numpy if it is in use.

    A dataset seeds generators of its own with `torch.initial_seed()`, which is then `value`.
    """
    random.seed(value)
    # torch.manual_seed would go through every kind of accelerator: 160 us instead of one.
    torch.default_generator.manual_seed(value)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(value & 0xFFFFFFFF)


@contextmanager
def generators_kept() -> Iterator[None]:
    """Restore the global generators after the block, which may seed and draw."""
    numpy = sys.modules.get("numpy")
    of_python, of_torch = random.getstate(), torch.default_generator.get_state()
    of_numpy = numpy.random.get_state(legacy=False) if numpy else None
    try:
        yield
    finally:
        random.setstate(of_python)
        torch.default_generator.set_state(of_torch)
        if numpy:
            numpy.random.set_state(of_numpy)
