"""The checkpoints that an argument of a command means."""

from spotrun_trainer.checkpoint.format.completion import newest_complete
from spotrun_trainer.checkpoint.format.names import Name, names_among
from spotrun_trainer.checkpoint.format.storage import Storage
from spotrun_trainer.checkpoint.places import is_address, open_storage
from spotrun_trainer.checkpoint.places.directory import Place, open_place


def find(argument: str) -> tuple[Storage, Name]:
    """Return the checkpoint of a path: `FOLDER/step-N.gG`, or a folder with the newest of several.

    Raises ValueError if there is none.
    """
    if _is_named(argument):
        return named(argument)
    place = place_of(argument)
    if (name := newest_complete(place)) is not None:
        return place, name
    raise ValueError(f"{place.where()} contains no complete checkpoint: {_known(place)}")


def named(argument: str) -> tuple[Storage, Name]:
    """Return the checkpoint of a path that names one, complete or not."""
    if not _is_named(argument):
        raise ValueError(f"{argument} is not the path of a checkpoint: give FOLDER/step-N.gG")
    folder, last = _split(argument)
    place, name = open_storage(folder), Name.parse(last)
    if name not in place.names():
        raise ValueError(f"{place.where(name)} does not exist: {_known(place)}")
    return place, name


def named_or_all(argument: str) -> tuple[Storage, list[Name]]:
    """Return the checkpoint of a path, or all of a folder."""
    if _is_named(argument):
        place, name = named(argument)
        return place, [name]
    place = place_of(argument)
    if not (names := place.names()):
        raise ValueError(_known(place))
    return place, names


def place_of(argument: str) -> Storage:
    """Return a folder of checkpoints; raises ValueError if it is not a folder."""
    place = open_storage(argument)
    if isinstance(place, Place) and not place.root.is_dir():
        raise ValueError(
            f"{place.root} is not a folder: give the one that Run(checkpoint=...) or "
            "SPOTRUN_CHECKPOINT names, or a checkpoint step-N.gG in it"
        )
    return place


def size_of(place: Storage, name: Name) -> int:
    """Return the bytes of all files of a checkpoint."""
    return sum(one.bytes for one in place.files(name))


def _is_named(argument: str) -> bool:
    return bool(names_among([_split(argument)[1]]))


def _split(argument: str) -> tuple[str, str]:
    """Return the folder that contains a path, and the name in that folder."""
    if is_address(argument):
        folder, _, last = argument.rstrip("/").rpartition("/")
        return folder, last
    path = open_place(argument)
    return str(path.parent), path.name


def _known(place: Storage) -> str:
    if not (names := place.names()):
        return f"{place.where()} contains no checkpoint step-N.gG"
    return f"{place.where()} contains {len(names)}, and the newest is {names[-1]}"
