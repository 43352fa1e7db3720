"""Which checkpoint training begins at."""

from collections.abc import Iterator
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

    All load the same one: rank 0 proposes, and one that is damaged for anybody is passed over.
    """
    candidates = _candidates(seat, checkpoints) if group.rank == 0 else iter(())
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


def _candidates(seat: Seat, checkpoints: Checkpoints) -> Iterator[str]:
    """Newest first; under spotrun from that on which the world names, and none if it names none."""
    if not seat.elastic:
        yield from checkpoints.complete()
    elif seat.restore is not None:
        yield seat.restore
        yield from checkpoints.complete_before(seat.restore)


def _try_load(
    name: str, checkpoints: Checkpoints, tracked: Tracked
) -> tuple[dict[str, Any], DamagedCheckpointError | None]:
    try:
        return checkpoints.load(name, tracked), None
    except DamagedCheckpointError as error:
        return {}, error
