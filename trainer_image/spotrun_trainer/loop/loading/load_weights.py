"""The weights that a training begins with, if it continues from no checkpoint of its own."""

from pathlib import Path

from torch import nn

from spotrun_trainer.checkpoint import Checkpoints, DamagedCheckpointError
from spotrun_trainer.checkpoint.foreign.reading.loading import Loaded, load_into
from spotrun_trainer.checkpoint.foreign.reading.opening import open_source
from spotrun_trainer.elastic.world_context import Context
from spotrun_trainer.state.tracked import some_of
from spotrun_trainer.telemetry.console import say


class MissingCheckpointError(ValueError):
    """The checkpoint that should give the weights no longer exists."""


def load_weights(
    context: Context, module: nn.Module, path: Path, *, prefix: str | None, strict: bool
) -> None:
    """Fill a module with the weights of a path; raises ValueError for what does not fit.

    If the module is tracked and there is a checkpoint to continue from, nothing is read, because
    the checkpoint replaces the weights.
    """
    if (newest := _restored_from(context, module)) is not None:
        context.expected_checkpoint = newest
        if context.rank_info.rank == 0:
            say(f"{path} is not read: the training continues from {newest}")
        return
    try:
        loaded = load_into(module, open_source(path), prefix=prefix, strict=strict)
    except (ValueError, DamagedCheckpointError) as error:
        kind = type(module).__name__
        raise ValueError(f"run.load cannot load {path} into the {kind}: {error}") from error
    if context.rank_info.rank == 0:
        say(_summary(path, loaded))


def check_nothing_is_missing(context: Context) -> None:
    """Raise an error if weights were not read because a checkpoint had them, and it is gone now."""
    if context.expected_checkpoint:
        raise MissingCheckpointError(
            f"run.load read nothing, because {context.expected_checkpoint} was in {context.place} "
            "to continue from, but now it is gone: start again"
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
    # Not the context's own: creating those needs a meeting of all processes.
    named = context.rank_info.restore or Checkpoints(context.place, keep=1).newest()
    return named or context.begins_from or None


def _summary(path: Path, loaded: Loaded) -> str:
    parts = [f"{loaded.tensors} tensors loaded from {path}"]
    if loaded.prefix:
        parts.append(f"their names there begin with {loaded.prefix}")
    if loaded.missing:
        parts.append(f"not found, and left unchanged: {some_of(loaded.missing)}")
    if loaded.unread:
        parts.append(f"not read, because the model has no such tensors: {some_of(loaded.unread)}")
    return "; ".join(parts)
