"""The checkpoints that an argument of a command means."""

from spotrun_trainer.checkpoint.format.completion import newest_complete
from spotrun_trainer.checkpoint.format.directory import Place, open_place
from spotrun_trainer.checkpoint.format.names import Name, names_among


def find(argument: str) -> tuple[Place, Name]:
    """Return the checkpoint of a path: `FOLDER/step-N.gG`, or a folder with the newest of several.

    Raises ValueError where there is none.
    """
    if _is_named(argument):
        return named(argument)
    place = place_of(argument)
    if (name := newest_complete(place)) is not None:
        return place, name
    raise ValueError(f"no complete checkpoint is in {place.root}: {_known(place)}")


def named(argument: str) -> tuple[Place, Name]:
    """Return the checkpoint of a path that names one, complete or not."""
    if not _is_named(argument):
        raise ValueError(f"{argument} names no checkpoint: give FOLDER/step-N.gG")
    path = open_place(argument)
    place, name = Place(path.parent), Name.parse(path.name)
    if name not in place.names():
        raise ValueError(f"{path} is not there: {_known(place)}")
    return place, name


def named_or_all(argument: str) -> tuple[Place, list[Name]]:
    """Return the checkpoint of a path, or all of a folder."""
    if _is_named(argument):
        place, name = named(argument)
        return place, [name]
    place = place_of(argument)
    if not (names := place.names()):
        raise ValueError(_known(place))
    return place, names


def place_of(argument: str) -> Place:
    """Return a folder that has checkpoints; raises ValueError if it is none."""
    path = open_place(argument)
    if not path.is_dir():
        raise ValueError(
            f"{path} is no folder: give the one that Run(checkpoint=...) or SPOTRUN_CHECKPOINT "
            "names, or a checkpoint step-N.gG in it"
        )
    return Place(path)


def size_of(place: Place, name: Name) -> int:
    """Return the bytes of all files of a checkpoint."""
    files = [one for one in place.path(name).iterdir() if not one.is_symlink()]
    return sum(one.stat().st_size for one in files if one.is_file())


def _is_named(argument: str) -> bool:
    return bool(names_among([open_place(argument).name]))


def _known(place: Place) -> str:
    if not (names := place.names()):
        return f"no step-N.gG is in {place.root}"
    return f"there are {len(names)} in {place.root}, of which {names[-1]} is the newest"
