"""Preparing a model for `run.prepare`: on its device, divided, and with less memory."""

from typing import TypeVar

import torch
from torch import nn

from spotrun_trainer.elastic.world_context import Context
from spotrun_trainer.loop.memory.blocks import Checkpointing, checkpoint_blocks, compile_blocks
from spotrun_trainer.loop.memory.needs import is_planned
from spotrun_trainer.parallel.fsdp import shard as shard_blocks
from spotrun_trainer.parallel.precision import autocast
from spotrun_trainer.state.wrapper_check import check_plain
from spotrun_trainer.step.loss_guard import OwnScaler

M = TypeVar("M", bound=nn.Module)


def prepared(
    context: Context,
    model: M,
    *,
    shard: bool,
    dtype: torch.dtype | None,
    checkpointing: Checkpointing | None,
    is_compiled: bool,
) -> M:
    """Prepare a model, in the order that torch requires."""
    check_plain("the model", model, context.mesh)
    if is_planned():
        from spotrun_trainer.loop.memory.fakes import fake_module  # noqa: PLC0415 - takes long

        fake_module(model)
    model = model.to(context.device)
    if checkpointing is not None:
        checkpoint_blocks(model, checkpointing)
    if is_compiled and not is_planned():
        compile_blocks(model)
    mesh = context.mesh if shard else None
    if mesh is not None and "shard" in mesh.mesh_dim_names and mesh["shard"].size() > 1:
        shard_blocks(model, mesh, dtype)
    elif dtype is not None and not is_planned():
        autocast(model, context.device, dtype)
    return model


def needs_scaler(context: Context) -> bool:
    """Whether float16 needs a scaler that does not exist yet; raises if it could not work."""
    if context.rank_info.stages > 1:
        raise ValueError(
            'precision="fp16" does not work with the stages of a pipeline, whose schedule '
            'computes gradients of losses that are not scaled: give "bf16"'
        )
    has_one = any(isinstance(one, OwnScaler) for one in context.things)
    return not has_one and not is_planned()
