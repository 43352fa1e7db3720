"""The parameters of optimizers."""

from typing import Any

from torch import nn
from torch.optim import Optimizer


def parameters_of(optimizer: Optimizer) -> list[nn.Parameter]:
    """Return the parameters that an optimizer updates."""
    return [parameter for parameter in all_of(optimizer) if parameter.requires_grad]


def all_of(optimizer: Optimizer) -> list[nn.Parameter]:
    """Return its parameters, with those that are frozen."""
    groups: list[dict[str, Any]] = optimizer.param_groups
    return [parameter for group in groups for parameter in group["params"]]
