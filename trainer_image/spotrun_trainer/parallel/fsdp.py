"""Models that torch divides among the processes of a copy: `fully_shard` (FSDP2)."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from spotrun_trainer.parallel.blocks import blocks_of

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


def shard(model: nn.Module, mesh: "DeviceMesh", dtype: torch.dtype | None = None) -> None:
    """Divide a model among the processes of a mesh: each block by itself, then all that is left.

    With `dtype` it computes in that type; parameters keep theirs, and gradients are added up in 32
    bits.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: PLC0415 - long

    reduced = None if dtype is None else torch.float32
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=reduced)
    for block in blocks_of([model]):
        fully_shard(block, mesh=mesh["shard"], mp_policy=policy)
    whole = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=reduced, output_dtype=reduced)
    fully_shard(model, mesh=mesh["shard"], mp_policy=whole)


def sharded_parts(things: Iterable[object]) -> list[Any]:
    """Return the parts of modules that torch shards (`FSDPModule`)."""
    return [
        part
        for module in things
        if isinstance(module, nn.Module)
        for part in module.modules()
        if any(base.__name__ == "FSDPModule" for base in type(part).__mro__)
    ]


_ACROSS_PARTS = {"Adafactor", "Muon"}
"""torch's optimizers that compute with whole matrices: they exchange parts within their step."""


def check_optimizers(things: Iterable[object]) -> None:
    """Raise ValueError for an optimizer that a lost worker could interrupt after the commit."""
    for thing in things:
        if isinstance(thing, Optimizer) and type(thing).__name__ in _ACROSS_PARTS:
            raise ValueError(
                f"{type(thing).__name__} computes with whole matrices; with parallel= their parts "
                "are in several processes, which would exchange them after a step is agreed on: "
                "use an optimizer that works element by element, such as AdamW or SGD"
            )


def sum_gradients(things: Iterable[object]) -> None:
    """Let torch add up the gradients of a copy's processes; `update` divides them once."""
    for part in sharded_parts(things):
        part.set_gradient_divide_factor(1.0)
        part.set_force_sum_reduction_for_comms(True)


def forget_pass(parts: Sequence[Any]) -> None:
    """Let sharded parts forget a pass that an error has ended, with the gradients that it left.

    A pipeline's schedule keeps the gradients of its own microbatches in whole tensors up to its
    end.
    """
    for part in parts:
        # The root of the modules knows it, once it has computed; torch 2.10 has no such call.
        is_root = part._get_fsdp_state()._is_root  # noqa: SLF001 - torch tells it nowhere else
        if is_root and hasattr(part, "reset_iter_state"):
            part.reset_iter_state()
    drop_whole_tensors(parts)


def drop_whole_tensors(parts: Iterable[Any]) -> None:
    """Drop what forward passes without a backward pass leave: whole tensors, and records of passes.

    torch records each forward pass, and fetches parts ahead by its records in the next backward
    pass. If one of the mates has joined since, they would begin different collectives, and wait for
    ever.
    """
    for part in parts:
        part.reshard()
        state = part._get_fsdp_state()  # noqa: SLF001 - reset_iter_state (2.13) drops gradients too
        several = getattr(state, "_fsdp_param_groups", None)
        if several is None:  # an older torch has one at most
            several = [one for one in (state._fsdp_param_group,) if one is not None]  # noqa: SLF001
        for group in several:
            getattr(group.comm_ctx, "post_forward_order", []).clear()  # there was none yet
            group._post_forward_indices.clear()  # noqa: SLF001
