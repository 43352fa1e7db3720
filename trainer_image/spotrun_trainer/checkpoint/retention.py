"""The checkpoints to delete once one of them is acknowledged."""

from collections.abc import Mapping

from spotrun_trainer.checkpoint.format.names import Name


def superseded(
    found: Mapping[Name, bool], acknowledged: Name, keep: int, world_number: int
) -> list[Name]:
    """Return the checkpoints to delete, oldest first, of those found (True: complete).

    Of the complete ones up to the acknowledged one the `keep` newest stay. Newer ones, by step or
    by world number, all stay: a partial one may still be written, and a complete one is about to be
    acknowledged. But a world number above the present one is that of an earlier job of this name,
    from whose checkpoint this one went on. If the acknowledged one is not found complete, nothing
    is deleted: this is another place, or a stale listing.
    """
    if keep < 1:
        raise ValueError(f"at least one checkpoint is kept, not {keep}")
    if not found.get(acknowledged):
        return []
    older = sorted(name for name in found if _is_covered(name, acknowledged, world_number))
    kept = [name for name in older if found[name]][-keep:]
    return [name for name in older if name not in kept]


def _is_covered(name: Name, acknowledged: Name, world_number: int) -> bool:
    if name.world_number > world_number:
        return name.step < acknowledged.step
    return name.step <= acknowledged.step and name.world_number <= acknowledged.world_number
