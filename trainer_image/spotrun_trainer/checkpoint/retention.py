"""The checkpoints to delete once one of them is acknowledged."""

from collections.abc import Mapping

from spotrun_trainer.checkpoint.format.names import Name


def superseded(
    found: Mapping[Name, bool], acknowledged: Name, keep: int, world_number: int
) -> list[Name]:
    """Return the checkpoints to delete, oldest first, of those found (True: complete).

    Of the complete ones up to the acknowledged one the `keep` newest stay. Newer ones, by step or
    by world number, all stay: a partial one may still be written, and a complete one will soon be
    acknowledged. But a world number above the current one belongs to an earlier job of this name,
    from whose checkpoint this one continued. If the acknowledged one is not found complete, nothing
    is deleted: this is another place, or an old listing.
    """
    if keep < 1:
        raise ValueError(f"the number of checkpoints to keep must be at least 1, not {keep}")
    if not found.get(acknowledged):
        return []
    older = sorted(name for name in found if _is_covered(name, acknowledged, world_number))
    kept = [name for name in older if found[name]][-keep:]
    return [name for name in older if name not in kept]


def _is_covered(name: Name, acknowledged: Name, world_number: int) -> bool:
    if name.world_number > world_number:
        return name.step < acknowledged.step
    return name.step <= acknowledged.step and name.world_number <= acknowledged.world_number
