"""The checkpoint that a training begins from."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from spotrun_trainer.checkpoint import (
    Checkpoints,
    DamagedCheckpointError,
    UnreadableCheckpointError,
)
from spotrun_trainer.checkpoint.format.reading.together import BY_ITSELF, Readers, Together
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.rank_info import RankInfo
from spotrun_trainer.state.tracked import Tracked
from spotrun_trainer.telemetry.console import say


class Restored(NamedTuple):
    """A loaded checkpoint, with the extra values saved in it."""

    name: str
    extra: dict[str, Any]
    where: str  # the checkpoints are
    is_durable: bool = True  # else it is in the local tier


def restore(
    rank_info: RankInfo,
    group: Group,
    checkpoints: Checkpoints,
    tracked: Tracked,
    device: torch.device,
) -> Restored | None:
    """Load the checkpoint to start from; return None if there is none.

    All load the same one: rank 0 proposes, and one that is damaged for any process is skipped.
    """
    candidates = _candidates(rank_info, checkpoints) if group.rank == 0 else iter(())
    damaged = None
    while name := group.text_from(0, next(candidates, ""), device=device):
        extra, damage = _try_load(name, checkpoints, tracked, group, device)
        is_unreadable = isinstance(damage, UnreadableCheckpointError)
        said = torch.tensor([float(damage is not None), float(is_unreadable)], device=device)
        group.all_reduce(said).wait()
        num_damaged, num_unreadable = said.tolist()
        if not num_damaged:
            return Restored(name, extra, checkpoints.where)
        if num_unreadable:  # it may be whole, and an older one loses work
            raise damage or UnreadableCheckpointError(f"another rank could not read {name}")
        damaged = damage or DamagedCheckpointError(f"{name} is damaged, as another rank found")
        say(f"{damaged}; trying the one before")
    if damaged is not None:  # a start from scratch would cost days, unexpectedly
        raise DamagedCheckpointError(f"{damaged}; {_afresh(checkpoints.where)}") from damaged
    return None


@contextmanager
def naming(folder: str) -> Iterator[None]:
    """Add the folder and a way out to the error of a checkpoint that does not fit."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{error}; {_afresh(folder)}") from error


def readers_of(group: Group, device: torch.device) -> Readers:
    """Return the processes that read a checkpoint together: those that hold the same part."""
    return Together(group.peers, device) if group.peers.size > 1 else BY_ITSELF


def _afresh(folder: str) -> str:
    return (
        f"to train afresh choose another place than {folder} (in a TrainingJob: give the job "
        "another name), or remove that folder"
    )


def _candidates(rank_info: RankInfo, checkpoints: Checkpoints) -> Iterator[str]:
    """Yield checkpoints, newest first, under spotrun beginning with the one that the world names.

    If it names none, none was acknowledged yet: there may be those of an earlier job of that name,
    or of a world that was lost before the operator heard of them.
    """
    if rank_info.restore is None:
        yield from checkpoints.complete()
    else:
        yield rank_info.restore
        yield from checkpoints.complete_before(rank_info.restore)


def _try_load(
    name: str, checkpoints: Checkpoints, tracked: Tracked, group: Group, device: torch.device
) -> tuple[dict[str, Any], DamagedCheckpointError | UnreadableCheckpointError | None]:
    try:
        with naming(checkpoints.where):
            extra = checkpoints.load(
                name, tracked, rank=group.rank, size=group.size, readers=readers_of(group, device)
            )
            return extra, None
    except (DamagedCheckpointError, UnreadableCheckpointError) as error:
        return {}, error
