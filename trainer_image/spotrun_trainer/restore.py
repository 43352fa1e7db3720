"""Which checkpoint training begins at."""

from typing import Any, NamedTuple

import torch

from spotrun_trainer.checkpoint import Checkpoints, DamagedCheckpointError
from spotrun_trainer.group import Group
from spotrun_trainer.logbook import say
from spotrun_trainer.seat import Seat
from spotrun_trainer.tracked import Tracked


class Restored(NamedTuple):
    """A checkpoint that was loaded, and what was saved beside it."""

    name: str
    extra: dict[str, Any]


def restore(
    seat: Seat, group: Group, checkpoints: Checkpoints, tracked: Tracked, device: torch.device
) -> Restored | None:
    """Load the checkpoint to start from; None: there is none.

    Under spotrun the world names it. Elsewhere rank 0 chooses, and a damaged one is passed over.
    """
    if seat.elastic:
        return _load_named(seat.restore, checkpoints, tracked)
    candidates = iter(checkpoints.complete() if group.rank == 0 else ())
    damaged = None
    while name := group.text_from(0, next(candidates, ""), device=device):
        extra, damage = _try_load(name, checkpoints, tracked)
        said = torch.tensor([float(damage is not None)], device=device)
        group.all_reduce(said).wait()
        if not said.item():
            return Restored(name, extra)
        damaged = damage or DamagedCheckpointError(f"{name} is damaged, as another rank found")
        say(f"{damaged}; trying the one before")
    if damaged is not None:  # from scratch would be a surprise that costs days
        raise damaged
    return None


def _load_named(name: str | None, checkpoints: Checkpoints, tracked: Tracked) -> Restored | None:
    if name is None:
        return None
    extra, damage = _try_load(name, checkpoints, tracked)
    if damage is not None:
        raise DamagedCheckpointError(
            f"the world starts from {name}, which the operator acknowledged, but: {damage}"
        ) from damage
    return Restored(name, extra)


def _try_load(
    name: str, checkpoints: Checkpoints, tracked: Tracked
) -> tuple[dict[str, Any], DamagedCheckpointError | None]:
    try:
        return checkpoints.load(name, tracked), None
    except DamagedCheckpointError as error:
        return {}, error
