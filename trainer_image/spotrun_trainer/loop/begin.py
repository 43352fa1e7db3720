"""The first state of a training, while no process has any: new, or from a checkpoint."""

from spotrun_trainer.elastic.world_context import Context
from spotrun_trainer.loop import state_sync
from spotrun_trainer.loop.loading.load_weights import check_nothing_is_missing
from spotrun_trainer.loop.loading.restore import Restored, begin_from_another, naming, restore
from spotrun_trainer.loop.position import Position
from spotrun_trainer.loop.saving.saving import Saving
from spotrun_trainer.telemetry.console import say


def begin(context: Context, saving: Saving, position: Position) -> None:
    """Begin, or continue from a checkpoint: with the same state in all processes."""
    names = context.tracked.parameter_names()
    state_sync.check_stages(names, context.group, context.device)
    with context.meter.span("restore"):
        restored = _restored(context, saving)
        if restored is None:
            check_nothing_is_missing(context)
            position.begin()
            tensors = context.tracked.flatten().tensors
            state_sync.share(tensors, context.group.peers, context.device)
            return
    _go_on(context, position, restored)
    saving.restored(restored, context.step)


def _restored(context: Context, saving: Saving) -> Restored | None:
    """Load a checkpoint: of the local tier, of this training, or of the one to begin from."""
    if context.checkpoints is None:
        return None
    saving.take_place()
    saving.local.meet()
    group, tracked, device = context.group, context.tracked, context.device
    return (
        saving.local.restore(context.checkpoints)
        or restore(context.rank_info, group, context.checkpoints, tracked, device)
        or begin_from_another(context)
    )


def _go_on(context: Context, position: Position, restored: Restored) -> None:
    # It may belong to an earlier job, as its orders did.
    is_found = context.rank_info.restore is None and restored.is_durable
    if context.group.rank == 0:
        _tell(context, restored, is_named=is_found or not restored.is_durable)
    others = {"stage": None} if restored.is_anothers else {}  # the stages are not this job's
    is_new = is_found or restored.is_anothers
    with naming(restored.where, is_anothers=restored.is_anothers):
        position.go_on(restored.extra | others | ({"orders": 0} if is_new else {}))
    if restored.is_anothers:
        position.keep_new_options(restored.extra)


def _tell(context: Context, restored: Restored, *, is_named: bool) -> None:
    checkpoints = context.checkpoints
    where = f", found in {restored.where}" if is_named else ""
    ahead = checkpoints.preloaded_bytes if checkpoints is not None else 0
    had = f"; {ahead / 1e6:.0f} MB of it had been fetched before" if ahead else ""
    say(f"continuing from {restored.name}{where}{had}")
    context.trace.mark("restored", preloaded_bytes=ahead)
