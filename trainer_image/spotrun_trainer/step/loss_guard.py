"""The check before a step is applied: a loss that is not finite would ruin the weights for good.

The checks use only the step's sums, which are the same in all processes. So all of them skip a
step, or none does.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.amp import GradScaler

from spotrun_trainer.telemetry.console import say

MOST_IN_A_ROW = 25
"""Single batches may have a loss that is not finite, and a GradScaler that begins with 2^16 finds
its scale within this many steps; after more such steps in a row the model is ruined."""

_ASKED_AT_ONCE = 2**22  # numbers; isfinite copies them
_LOOKED_AT = 16  # operations: a scaled loss may be divided, or added to another loss


class NotFiniteError(Exception):
    """Step after step has a loss or a gradient that is not finite, or the weights are not."""


def are_finite(tensors: Iterable[Tensor]) -> bool:
    """Whether all numbers in the tensors are finite; waits once for each device."""
    found: dict[torch.device, list[Tensor]] = {}
    for tensor in tensors:
        pieces = torch.split(tensor.detach().flatten(), _ASKED_AT_ONCE)
        found.setdefault(tensor.device, []).extend(piece.isfinite().all() for piece in pieces)
    return all(bool(torch.stack(each).all()) for each in found.values())


def why_not_by_sums(loss: float, weight: float) -> str:
    """Return why a step with this loss is not applied; an empty text if it is."""
    if weight == 0:
        return "the weights of its losses add up to 0"
    return "" if math.isfinite(loss) else f"its loss is {loss}"


def why_not_by_norm(norm: float) -> str:
    """Return why a step with this gradient norm is not applied; an empty text if it is."""
    return "" if math.isfinite(norm) else f"the norm of its gradient is {norm}"


def is_of_numbers(why: str) -> bool:
    """Whether a number was not finite; a step without weight is only empty."""
    return bool(why) and not why.startswith("its losses")


class Scaler:
    """torch's GradScaler, for gradients that are summed over all processes."""

    def __init__(self, scaler: GradScaler, *, is_own: bool = False) -> None:
        """Wrap a scaler: the one of `run.prepare`, or one of the script."""
        self._scaler = scaler
        self.is_own = is_own

    def is_of(self, scaler: GradScaler) -> bool:
        """Whether it wraps this GradScaler."""
        return self._scaler is scaler

    @property
    def scale(self) -> float:
        """The present scale of losses."""
        return float(self._scaler.get_scale())

    def scaled(self, loss: Tensor) -> tuple[Tensor, Tensor]:
        """Return a loss unscaled and scaled, given either of the two."""
        if not self._scaler.is_enabled():
            return loss.detach(), loss
        scale: Any = self._scaler._scale  # noqa: SLF001 - was the loss multiplied by exactly that?
        if scale is not None:
            if _multiplies_by(loss.grad_fn, scale):
                return loss.detach() / scale, loss
            if any(_multiplies_by(one, scale) for one in _last_nodes(loss)):
                raise ValueError(
                    "step.backward got a loss that was computed from a scaled loss: give it the "
                    "unscaled loss, or scaler.scale(loss) itself"
                )
        return loss.detach(), self._scaler.scale(loss)

    def update(self, *, is_finite: bool) -> None:
        """Update the scale after a step, as the scaler's own `update` does for one process."""
        state = self._scaler.state_dict()
        if not state:  # GradScaler(enabled=False)
            return
        if not is_finite:
            state["scale"], state["_growth_tracker"] = state["scale"] * state["backoff_factor"], 0
        elif state["_growth_tracker"] + 1 == state["growth_interval"]:
            state["scale"], state["_growth_tracker"] = state["scale"] * state["growth_factor"], 0
        else:
            state["_growth_tracker"] += 1
        self._scaler.load_state_dict(state)


def _multiplies_by(node: object, scale: Tensor) -> bool:
    by: Any = getattr(node, "_saved_other", None)
    return isinstance(by, Tensor) and by.data_ptr() == scale.data_ptr()


def _last_nodes(loss: Tensor) -> list[Any]:
    """Return the last few operations that computed a loss."""
    nodes: list[Any] = [loss.grad_fn]
    for node in nodes:
        before = (one for one, _ in getattr(node, "next_functions", ()) if one is not None)
        nodes += islice(before, _LOOKED_AT - len(nodes))
    return nodes


class Streak:
    """The latest steps in a row with a number that was not finite."""

    def __init__(self) -> None:
        self.steps = 0

    def note(self, skipped: Sequence[str], *, step: int, is_logged: bool) -> None:
        """Count a step, with why its updates were skipped; raises NotFiniteError."""
        if skipped and is_logged:
            say(f"step {step} changes nothing: {skipped[0]}")
        self.steps = self.steps + 1 if any(map(is_of_numbers, skipped)) else 0
        if self.steps == MOST_IN_A_ROW:
            raise NotFiniteError(
                f"{self.steps} steps in a row, up to step {step}, were skipped ({skipped[0]}). "
                "None of them was applied or saved: continue from the last checkpoint with clip= "
                "or a lower learning rate, or without the samples that cause it"
            )


class OwnScaler(GradScaler):
    """The scaler that `run.prepare` makes for float16: the script does not know it."""


def scaler_in(things: Iterable[object]) -> Scaler | None:
    """Return the GradScaler among the tracked objects."""
    found = [one for one in things if isinstance(one, GradScaler)]
    if len(found) > 1:
        own = ', and precision="fp16" has one already' * any(
            isinstance(one, OwnScaler) for one in found
        )
        raise ValueError(
            f"two GradScalers are tracked{own}: use one for the losses of all optimizers"
        )
    return Scaler(found[0], is_own=isinstance(found[0], OwnScaler)) if found else None


def check_scaler(own: Scaler | None, given: GradScaler | None, *, is_in_parts: bool) -> None:
    """Raise ValueError if an update got no scaler although one is tracked, or a different one."""
    if own is None and given is None:
        return
    if given is None and own is not None and not own.is_own:
        raise ValueError(
            "a GradScaler is tracked, and gradients are scaled by it: remove scaler.step(...) and "
            "scaler.update(), and call step.update(..., scaler=scaler)"
        )
    if given is not None and (own is None or not own.is_of(given)):
        raise ValueError(
            "step.update got a GradScaler that is not tracked: give it to run.track(...) before "
            "run.steps(...)"
        )
    if is_in_parts:
        raise ValueError(
            "a scaler must see whether the whole gradient is finite, but a process has the "
            "gradient of its part of the model only: train in bfloat16 if Run(shards=...) is "
            "above 1, or with the stages of a pipeline"
        )
