"""Models whose layers are dealt to stages: torch's own schedules, made anew in each world."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor


class PipelineSchedule(Protocol):
    """A schedule of torch.distributed.pipelining."""

    scale_grads: bool

    def step(self, *args: Any, target: Any, losses: list[Tensor]) -> object:  # noqa: ANN401 - torch's
        """Compute gradients of one batch, cut into the schedule's own microbatches."""


class Schedules:
    """The schedules of one world.

    In its first step a schedule lets the stages tell each other the shapes that they exchange. So
    all of a copy make a new one in each world, where some of them may be new.
    """

    def __init__(self) -> None:
        self._made: dict[Callable[[], PipelineSchedule], PipelineSchedule] = {}

    def of(self, make: Callable[[], PipelineSchedule]) -> PipelineSchedule:
        """Return the schedule that a function of the script makes, once in a world."""
        if make not in self._made:
            schedule = make()
            if schedule.scale_grads:
                raise ValueError(
                    "step.pipeline got a schedule with scale_grads=True, which divides the "
                    "gradients of the step's earlier batches again: make it with "
                    "scale_grads=False and a loss_fn that returns a sum"
                )
            self._made[make] = schedule
        return self._made[make]

    def clear(self) -> None:
        """Drop all schedules: another world begins."""
        self._made.clear()


def compute(
    schedule: PipelineSchedule,
    inputs: Sequence[Any],
    target: Any,  # noqa: ANN401 - the script's
    *,
    is_first: bool,
    is_last: bool,
) -> Tensor:
    """Run a schedule on a batch; return the sum of its losses, which the last stage has."""
    losses: list[Tensor] = []
    schedule.step(*(inputs if is_first else ()), target=target if is_last else None, losses=losses)
    return (
        torch.stack([one.detach().reshape(()) for one in losses]).sum()
        if losses
        else torch.zeros(())
    )
