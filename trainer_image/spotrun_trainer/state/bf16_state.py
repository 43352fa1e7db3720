"""Optimizers that keep their moments in bfloat16 between two steps, and compute in 32 bits.

Rounding to the nearest number would break an average that changes by a thousandth per step: that is
less than half of bfloat16's resolution, so it would never change. So numbers are rounded up or down
at random, and are right on average. The draws follow from the seed of the step, and are the same in
all processes that hold the same part.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from spotrun_trainer.parallel.local import like, local

AnyOptimizer = TypeVar("AnyOptimizer", bound=Optimizer)
_DROPPED_BITS = 16


def bf16_state(optimizer: AnyOptimizer) -> AnyOptimizer:
    """Let an optimizer keep its state in bfloat16 between two steps, and return it.

    That takes half the memory while microbatches are computed, and in checkpoints. While the
    optimizer steps, the state is in 32 bits. Use it in the steps of a `Run`, which has a seed for
    each.
    """
    optimizer.register_step_pre_hook(_widen)
    optimizer.register_step_post_hook(_narrow)
    return optimizer


def _widen(optimizer: Optimizer, *_: object) -> None:
    for state, name, value in _tensors(optimizer):
        if value.dtype is torch.bfloat16:
            state[name] = value.float()


@torch.no_grad()
def _narrow(optimizer: Optimizer, *_: object) -> None:
    generators: dict[torch.device, torch.Generator] = {}
    for state, name, value in _tensors(optimizer):
        if value.dtype is torch.float32 and value.numel() > 1:  # others are step counters
            part = local(value)
            if part.device not in generators:
                generator = torch.Generator(part.device)
                generators[part.device] = generator.manual_seed(torch.initial_seed())
            state[name] = like(rounded(part, generators[part.device]), value)


def rounded(value: Tensor, generator: torch.Generator) -> Tensor:
    """Round 32 bits to bfloat16, up or down at random, the nearer number more often."""
    bits = value.contiguous().view(torch.int32)
    noise = torch.empty_like(bits).random_(0, 2**_DROPPED_BITS, generator=generator)
    kept = noise.add_(bits).bitwise_and_(-(2**_DROPPED_BITS))
    return kept.view(torch.float32).to(torch.bfloat16)


def _tensors(optimizer: Optimizer) -> Iterator[tuple[dict[str, Any], str, Tensor]]:
    """Yield the tensors of the weights in 32 bits, each with its place."""
    for parameter, state in optimizer.state.items():
        if parameter.dtype is torch.float32:
            for name, value in list(state.items()):
                if isinstance(value, Tensor):
                    yield state, name, value
