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
from spotrun_trainer.checkpoint.format.names import names_among
from spotrun_trainer.checkpoint.format.reading.together import BY_ITSELF, Readers, Together
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.rank_info import RankInfo
from spotrun_trainer.elastic.world_context import Context
from spotrun_trainer.state.tracked import Tracked
from spotrun_trainer.telemetry.console import say


class Restored(NamedTuple):
    """A loaded checkpoint, with the extra values saved in it."""

    name: str
    extra: dict[str, Any]
    where: str  # the place of the checkpoints
    is_durable: bool = True  # False: it is in the local tier, or belongs to another training
    is_anothers: bool = False


def restore(
    rank_info: RankInfo,
    group: Group,
    checkpoints: Checkpoints,
    tracked: Tracked,
    device: torch.device,
) -> Restored | None:
    """Load the checkpoint to start from; return None if there is none.

    All load the same one: rank 0 proposes it, and one that any process finds damaged is skipped.
    """
    candidates = _candidates(rank_info, checkpoints) if group.rank == 0 else iter(())
    restored, damaged = _first_whole(candidates, checkpoints, group, tracked, device)
    if damaged is not None:  # an unexpected start from scratch could cost days
        raise DamagedCheckpointError(f"{damaged}; {_afresh(checkpoints.where)}") from damaged
    return restored


def begin_from_another(context: Context) -> Restored | None:
    """Load another training's checkpoint, if this one must begin from it; raises ValueError.

    It is the named one, or the newest in the named place.
    """
    if not context.begins_from:
        return None
    group = context.group
    place, _, name = context.begins_from.rstrip("/").rpartition("/")
    if not names_among([name]):
        place, name = context.begins_from, ""
    checkpoints = context.checkpoints_in(place)
    named = [name] if name else checkpoints.complete() if group.rank == 0 else []
    restored, damaged = _first_whole(
        iter(named), checkpoints, group, context.tracked, context.device, is_anothers=True
    )
    if restored is None:
        why = str(damaged) if damaged is not None else "there is no such checkpoint"
        raise ValueError(
            f"this training begins from {name or 'the newest checkpoint'} in {place}, but it "
            f"cannot be loaded: {why}; name one that exists (spec.checkpoint.beginFrom, or "
            "SPOTRUN_CHECKPOINT_FROM), or none to begin from scratch"
        ) from damaged
    return restored._replace(is_durable=False, is_anothers=True)


def _first_whole(
    candidates: Iterator[str],
    checkpoints: Checkpoints,
    group: Group,
    tracked: Tracked,
    device: torch.device,
    *,
    is_anothers: bool = False,
) -> tuple[Restored | None, DamagedCheckpointError | UnreadableCheckpointError | None]:
    """Load the first one that all find whole; otherwise return why the newest one is not."""
    damaged = None
    while name := group.text_from(0, next(candidates, ""), device=device):
        with naming(checkpoints.where, is_anothers=is_anothers):
            extra, damage = _try_load(name, checkpoints, tracked, group, device)
        is_unreadable = isinstance(damage, UnreadableCheckpointError)
        said = torch.tensor([float(damage is not None), float(is_unreadable)], device=device)
        num_damaged, num_unreadable = group.total(said)
        if not num_damaged:
            return Restored(name, extra, checkpoints.where), None
        if num_unreadable:  # it may be whole, and an older one would lose work
            raise damage or UnreadableCheckpointError(f"another rank could not read {name}")
        damaged = damage or DamagedCheckpointError(f"{name} is damaged: another rank found that")
        say(f"{damaged}; the trainer tries the one before")
    return None, damaged


@contextmanager
def naming(folder: str, *, is_anothers: bool = False) -> Iterator[None]:
    """Add the folder and a way out to the error of a checkpoint that does not fit."""
    try:
        yield
    except ValueError as error:
        way_out = f"this training begins from {folder} (spec.checkpoint.beginFrom)"
        raise ValueError(f"{error}; {way_out if is_anothers else _afresh(folder)}") from error


def readers_of(group: Group, device: torch.device) -> Readers:
    """Return the processes that read a checkpoint together: those that hold the same part."""
    return Together(group.peers, device) if group.peers.size > 1 else BY_ITSELF


def _afresh(folder: str) -> str:
    return (
        f"to train from scratch choose another place than {folder} (in a TrainingJob: give the job "
        "another name), or remove that folder"
    )


def _candidates(rank_info: RankInfo, checkpoints: Checkpoints) -> Iterator[str]:
    """Yield checkpoints, newest first; under spotrun the one that the world names comes first.

    If it names none, none was acknowledged yet: there may be checkpoints of an earlier job of that
    name, or of a world that was lost before the operator got to know them.
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
        extra = checkpoints.load(
            name, tracked, rank=group.rank, size=group.size, readers=readers_of(group, device)
        )
    except (DamagedCheckpointError, UnreadableCheckpointError) as error:
        return {}, error
    return extra, None
