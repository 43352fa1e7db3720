"""Updates of a process by itself within a step (local SGD, DiLoCo: Douillard et al. 2023).

A process takes inner steps on its own microbatches. At the end of the step, the distance that its
weights have moved is its gradient for the outer optimizer, and the weights go back to their values
at the start of the step. So all tracked state is the same in all processes whenever they meet,
commit, save, or send it.

Each process has its own state of the inner optimizer, which changes only with an applied step.
"""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer


class InnerSteps:
    """The inner steps of one step."""

    def __init__(self) -> None:
        self.count = 0
        self._optimizer: Optimizer | None = None
        self._state: dict[str, Any] = {}  # of the optimizer, before the step
        self._before: list[tuple[nn.Parameter, Tensor]] = []  # weights

    def update(self, optimizer: Optimizer, weight: float | Tensor, clip: float | None) -> None:
        """Take an inner step, by the gradients of losses with this total weight."""
        if self._optimizer is None:
            self._optimizer, self._state = optimizer, deepcopy(optimizer.state_dict())
            self._before = [(one, one.detach().clone()) for one in _parameters(optimizer)]
        if self._optimizer is not optimizer:
            raise ValueError(
                "step.inner_update got two optimizers in one step: give one inner optimizer all "
                "parameters, in groups if they need different options"
            )
        parameters = _parameters(optimizer)
        gradients = [one.grad for one in parameters if one.grad is not None]
        if gradients:
            # Gradients of losses without weight are zeros already.
            known = torch.as_tensor(weight, device=gradients[0].device)
            torch._foreach_div_(gradients, torch.where(known == 0, 1, known))
        if clip is not None:
            clip_grad_norm_(parameters, clip)
        optimizer.step()
        for parameter in parameters:
            parameter.grad = None
        self.count += 1

    def hand_over(self, weight: float | Tensor) -> None:
        """Set how far weights have moved, times `weight`, as gradients, and move weights back."""
        with torch.no_grad():
            for parameter, before in self._before:
                parameter.grad = (before - parameter).mul_(weight)
                parameter.copy_(before)

    def keep(self) -> None:
        """Note that all processes have applied the step: the optimizer's state is that after it."""
        self._optimizer, self._state, self._before, self.count = None, {}, [], 0

    def set_back(self) -> None:
        """Undo all."""
        if self._optimizer is not None:
            self._optimizer.load_state_dict(self._state)
        with torch.no_grad():
            for parameter, before in self._before:
                parameter.copy_(before)
        self.keep()


def _parameters(optimizer: Optimizer) -> list[nn.Parameter]:
    groups: list[dict[str, Any]] = optimizer.param_groups
    return [one for group in groups for one in group["params"] if one.requires_grad]
