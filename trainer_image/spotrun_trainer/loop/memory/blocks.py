"""torch's own ways to compute a model's blocks with less memory, or faster."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from spotrun_trainer.parallel.blocks import blocks_of

Checkpointing = Literal["full", "selective"]

_KEPT = (
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten.bmm.default,
    torch.ops.aten.convolution.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,  # noqa: SLF001 - torch's operators
    torch.ops.aten._scaled_dot_product_efficient_attention.default,  # noqa: SLF001
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,  # noqa: SLF001
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,  # noqa: SLF001
)
"""The results that selective checkpointing keeps: those that are expensive to compute again."""


def checkpoint_blocks(model: nn.Module, kind: Checkpointing) -> None:
    """Let each block keep only its input for the backward pass, and compute the rest again.

    A block's `forward` is replaced, not the block: names of parameters, and torch's hooks on a
    module's call (`fully_shard`, `compile`), stay as they are.
    """
    if kind not in {"full", "selective"}:
        raise ValueError(f'checkpointing={kind!r}: give "full" or "selective"')
    for block in _blocks(model, "checkpointing"):
        block.forward = _checkpointed(block.forward, kind)


def is_checkpointed(block: nn.Module) -> bool:
    """Whether `checkpoint_blocks` has changed this block."""
    forward = block.__dict__.get("forward")
    return isinstance(forward, partial) and forward.func is checkpoint


def keep_all(blocks: Iterable[nn.Module]) -> None:
    """Undo `checkpoint_blocks`."""
    for block in blocks:
        del block.forward


def compile_blocks(model: nn.Module) -> None:
    """Compile each block by itself: equal blocks share one compilation."""
    for block in _blocks(model, "compile"):
        block.compile()


def _checkpointed(forward: Callable[..., Any], kind: Checkpointing) -> Callable[..., Any]:
    if kind == "full":
        return partial(checkpoint, forward, use_reentrant=False)
    contexts = partial(create_selective_checkpoint_contexts, list(_KEPT))
    return partial(checkpoint, forward, use_reentrant=False, context_fn=contexts)


def _blocks(model: nn.Module, option: str) -> list[nn.Module]:
    blocks = list(blocks_of([model]))
    if not blocks:
        raise ValueError(
            f"{option}= works on a model's blocks, the entries of an nn.ModuleList, but this model "
            "has none: put its layers into an nn.ModuleList"
        )
    return blocks
