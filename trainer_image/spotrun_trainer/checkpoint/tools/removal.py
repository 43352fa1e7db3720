"""`rm`: checkpoints that are not needed any more, never the one that a training starts from."""

from collections.abc import Mapping, Sequence

from spotrun_trainer.checkpoint.format.completion import is_complete
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.storage import Storage


def reasons_to_stay(place: Storage, wanted: Sequence[Name]) -> list[str]:
    """Return why some of these checkpoints should not be removed."""
    found = {name: is_complete(place, name) for name in place.names()}
    return [reason for name in wanted if (reason := _reason_to_stay(name, found))]


def _reason_to_stay(name: Name, found: Mapping[Name, bool]) -> str:
    """Return a reason, or an empty text; `found` says which checkpoints are complete."""
    newest = max((one for one, is_whole in found.items() if is_whole), default=None)
    if name == newest:
        return f"{name} is the newest complete one: a training that starts again continues from it"
    if newest is None or name > newest:
        return f"{name} is newer than all complete ones: a training may be writing it"
    return ""


def remove(place: Storage, names: Sequence[Name]) -> list[str]:
    """Remove checkpoints, and of each the marker first; return the folders that stay.

    A process that is killed meanwhile leaves an incomplete checkpoint, which is never loaded.
    """
    for name in names:
        place.remove(name)
    left = set(place.names())
    return [place.where(name) for name in names if name in left]
