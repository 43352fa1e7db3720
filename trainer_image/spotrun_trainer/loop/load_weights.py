"""The weights that a training begins with, where it goes on from no checkpoint of its own."""

from pathlib import Path

from torch import nn

from spotrun_trainer.checkpoint import Checkpoints, DamagedCheckpointError
from spotrun_trainer.checkpoint.foreign.reading.loading import Loaded, load_into
from spotrun_trainer.checkpoint.foreign.reading.opening import open_source
from spotrun_trainer.elastic.world_context import Context
from spotrun_trainer.state.tracked import some_of
from spotrun_trainer.telemetry.console import say


class MissingCheckpointError(ValueError):
    """The checkpoint is gone that weights were to come from."""


def load_weights(
    context: Context, module: nn.Module, path: Path, *, prefix: str | None, strict: bool
) -> None:
    """Fill a module with the weights of a path; raises ValueError for what does not fit.

    Where the module is tracked and there is a checkpoint to go on from, nothing is read: what is
    in that replaces it.
    """
    if (newest := _restored_from(context, module)) is not None:
        context.expected_checkpoint = newest
        if context.rank_info.rank == 0:
            say(f"{path} is not read: the training goes on from {newest}")
        return
    try:
        loaded = load_into(module, open_source(path), prefix=prefix, strict=strict)
    except (ValueError, DamagedCheckpointError) as error:
        kind = type(module).__name__
        raise ValueError(f"run.load cannot load {path} into the {kind}: {error}") from error
    if context.rank_info.rank == 0:
        say(_summary(path, loaded))


def check_nothing_is_missing(context: Context) -> None:
    """Raise an error where weights were not read since a checkpoint had them, and it is gone."""
    if context.expected_checkpoint:
        raise MissingCheckpointError(
            f"run.load read nothing, for {context.expected_checkpoint} was in {context.place} to "
            "go on from, and now it is gone: start again"
        )


def _restored_from(context: Context, module: nn.Module) -> str | None:
    """Return the checkpoint that a module's content will come from."""
    is_tracked = any(
        module is one
        for thing in context.things
        if isinstance(thing, nn.Module)
        for one in thing.modules()
    )
    if context.place is None or not is_tracked:
        return None
    # Not the context's own: to make those all processes would have to meet.
    named = context.rank_info.restore or Checkpoints(context.place, keep=1).newest()
    return named or context.begins_from or None


def _summary(path: Path, loaded: Loaded) -> str:
    parts = [f"{loaded.tensors} tensors loaded from {path}"]
    if loaded.prefix:
        parts.append(f"names there begin with {loaded.prefix}")
    if loaded.missing:
        parts.append(f"not there, and as they were: {some_of(loaded.missing)}")
    if loaded.unread:
        parts.append(f"not read, for the model has none: {some_of(loaded.unread)}")
    return "; ".join(parts)
