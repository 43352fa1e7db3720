"""Models whose layers are dealt to stages: torch's own schedules, created again in each world."""

from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

R = TypeVar("R")


class PipelineSchedule(Protocol):
    """A schedule of torch.distributed.pipelining."""

    scale_grads: bool

    def step(self, *args: Any, target: Any, losses: list[Tensor]) -> object:  # noqa: ANN401 - torch's
        """Compute gradients of one batch, cut into the schedule's own microbatches."""


Make = Callable[[], PipelineSchedule]
"""A script's function that makes a schedule of its stage."""


class Schedules:
    """The schedules of one world.

    In its first step a schedule lets the stages tell each other the shapes that they exchange. So
    all processes of a copy make a new one in each world, where some of them may be new.
    """

    def __init__(self) -> None:
        self._world: object = None
        self._made: dict[tuple[Make, int], PipelineSchedule] = {}

    def of(self, make: Make, world: object, samples: int = 0) -> PipelineSchedule:
        """Return the schedule that a script's function makes, once in a world.

        One for evaluations takes batches of `samples` samples, and computes no losses.
        """
        if world is not self._world:
            self._world = world
            self._made.clear()
        if (make, samples) not in self._made:
            schedule: Any = make()
            if schedule.scale_grads:
                raise ValueError(
                    "step.pipeline got a schedule with scale_grads=True, which divides the "
                    "gradients of the step's earlier batches again: make it with "
                    "scale_grads=False and a loss_fn that returns a sum"
                )
            if samples:  # as its `eval` does, but without a loss, which would need a target
                schedule._loss_fn, schedule._has_backward = None, False  # noqa: SLF001
            self._made[make, samples] = schedule
        return self._made[make, samples]


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
    schedule.step(
        *(inputs if is_first else ()),
        target=target if is_last else None,
        losses=losses,
        **_without_results(schedule),
    )
    return (
        torch.stack([one.detach().reshape(()) for one in losses]).sum()
        if losses
        else torch.zeros(())
    )


def _without_results(schedule: PipelineSchedule) -> dict[str, bool]:
    """Return the option by which the last stage does not keep all results up to the end."""
    name = "return_outputs"
    return {name: False} if name in signature(schedule.step).parameters else {}  # torch 2.10 has it


class InStages:
    """The model of an evaluation, called like a whole model: all stages take the same batches.

    The last stage returns the result; on others the call ends the function that makes it.
    """

    def __init__(self, schedule: PipelineSchedule, samples: int, stage: int, stages: int) -> None:
        self._schedule: Any = schedule
        cut: int = vars(schedule)["_n_microbatches"]  # torch tells it nowhere else
        self._samples = -(-samples // cut) * cut
        self._is_first = stage == 0
        self._is_last = stage == stages - 1
        self._is_called = False

    def measured(self, function: Callable[[Any, Any], R], batch: object) -> R | None:
        """Return a function's result for model and batch on the last stage, None on others."""
        self._is_called = False
        try:
            found = function(self, batch)
        except _ElsewhereError:
            return None
        return found if self._is_last else None

    def __call__(self, *inputs: Any) -> Any:  # noqa: ANN401 - the script's
        """Compute a batch, filled up to the number of samples that all batches have."""
        if self._is_called:
            raise ValueError(
                "run.evaluate called a model in stages twice for one batch: only the last stage "
                "knows the first result, so call the model once, and let it return all that you "
                "need"
            )
        self._is_called = True
        count = next(len(one) for one in tree_leaves(inputs) if isinstance(one, Tensor))
        given = tree_map(partial(_filled, count, self._samples), inputs) if self._is_first else ()
        result = self._schedule.step(*given)
        if not self._is_last:
            raise _ElsewhereError
        return tree_map(lambda one: one[:count] if isinstance(one, Tensor) else one, result)


class _ElsewhereError(Exception):
    """The result of a call is on another stage."""


def _filled(count: int, samples: int, value: object) -> object:
    if not isinstance(value, Tensor) or not value.ndim or len(value) != count:
        return value
    return torch.cat([value, value[:1].expand(samples - count, *value.shape[1:])])
