"""The update after a commit: gradients unscaled, divided by the weight and clipped, and buffers."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from spotrun_trainer.parallel.local import like
from spotrun_trainer.step.gradients import Gradients
from spotrun_trainer.step.loss_guard import why_not_by_norm, why_not_by_sums
from spotrun_trainer.step.step_context import StepContext

_CLIP_EPSILON = 1e-6  # as torch's clip_grad_norm_


def apply(
    context: StepContext,
    gradients: Sequence[Gradients],
    totals: Tensor,
    clip: float | None,
    *,
    some_missing: bool,
    square: Tensor | None = None,
) -> tuple[Tensor | None, str]:
    """Set the gradients for the optimizer, and update buffers.

    `square` is the square of the gradient's norm, if this process has only a part of the gradient.
    Return the norm, and the reason if nothing must be applied.
    """
    pairs = [
        (parameter, gradient)
        for one in gradients
        for parameter, gradient in zip(
            one.parameters, one.sums(some_missing=some_missing), strict=True
        )
        if gradient is not None
    ]
    sums = [gradient for _, gradient in pairs]
    # First, because squares of scaled gradients could overflow in the norm.
    scale = 1.0 if context.scaler is None else context.scaler.scale
    if context.scaler is not None and sums:
        torch._foreach_mul_(sums, 1 / scale)
    norm = None if square is None else square.sqrt().squeeze() / scale
    if norm is None and (clip is not None or context.looks_at_gradients):
        norm = get_total_norm(sums)
    # One wait for a GPU, for all of them.
    known = (
        totals[:2] if norm is None else torch.cat([totals[:2], norm.reshape(1).to(totals.device)])
    )
    loss, weight, *norms = known.tolist()
    if skipped := why_not_by_sums(loss, weight):
        return (norm / weight if norm is not None and weight else norm), skipped
    # Parts of a model have different norms, so their processes would not agree.
    is_whole = context.group.replica is None or square is not None
    if norms and is_whole and (skipped := why_not_by_norm(norms[0])):
        return norm, skipped
    if not sums:
        raise ValueError(
            "no parameter of the optimizer got a gradient: give step.backward a loss that "
            "depends on them"
        )
    factor: float | Tensor = 1 / weight
    if norm is not None:
        norm = norm / weight
    if norm is not None and clip is not None:  # in the same pass as the division
        factor = (clip / (norm + _CLIP_EPSILON)).clamp(max=1) / weight
    torch._foreach_mul_(sums, factor)
    for parameter, gradient in pairs:
        parameter.grad = like(gradient.to(parameter.dtype), parameter)
    context.buffers.apply(totals[2 + len(context.sum_names) :], context.batch.microbatches)
    return norm, ""
