"""The norm of a gradient whose parts are in several processes."""

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from spotrun_trainer.parallel.local import holders
from spotrun_trainer.step.gradients import Gradients
from spotrun_trainer.step.step_context import StepContext


def square_of_part(
    context: StepContext, gradients: Sequence[Gradients], *, is_clipped: bool
) -> Tensor | None:
    """Return this process's summand of the square of the whole gradient's norm.

    None, unless parts of the gradient are in several processes.
    """
    group, replica = context.group, context.group.replica
    is_needed = is_clipped or context.looks_at_gradients
    if replica is None or group.is_divided_by_script or not is_needed:
        return None
    alike = defaultdict[int, list[Tensor]](list)  # by the number of processes with the same part
    for each in gradients:
        sums = each.sums(some_missing=False)
        for parameter, one in zip(each.parameters, sums, strict=True):
            if one is not None:
                alike[holders(parameter, group.plan.of_stage)].append(one)
    square = torch.zeros(1, dtype=torch.float64, device=context.device)
    for count, parts in alike.items():
        square += get_total_norm(parts).double().pow(2) / count
    # The sum is over all copies, which have the same gradient.
    return square if group.peers.rank == 0 else torch.zeros_like(square)
