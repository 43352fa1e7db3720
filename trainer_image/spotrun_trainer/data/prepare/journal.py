"""The work that a preparation has done so far, in a separate file beside the shards.

Its first line has what was known when the preparation began, and each further line has a group that
was done since. A line is appended and synced after its shards, so if the process is killed, or the
node loses power, only the groups in progress are lost. The manifest, which readers look for, is
written at the end.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from spotrun_trainer.data.load import Json
from spotrun_trainer.data.places import Shard
from spotrun_trainer.data.prepare.work import Made
from spotrun_trainer.store.folder_sync import sync_folder

NAME = "_prepared.json"
PART = f".{NAME}.part"
"""The temporary file that becomes it."""


@dataclass(frozen=True)
class Seen:
    """An input as it was when it was last read, so that it need not be read again."""

    num_bytes: int
    modified_ns: int
    sha256: str


@dataclass(frozen=True)
class Journal:
    """The content of the file."""

    settings: Mapping[str, Json] = field(default_factory=dict)
    seen: Mapping[str, Seen] = field(default_factory=dict)
    """Inputs by name."""
    together: Sequence[Sequence[str]] = ()
    """The names of inputs that are in a group together."""
    done: Mapping[str, Sequence[Made]] = field(default_factory=dict)
    """Shards by the key of their group."""


def read(folder: Path) -> Journal:
    """Return the journal of a folder; an empty one if there is none."""
    path = folder / NAME
    try:
        first, *more = path.read_bytes().splitlines() or [b""]
        content = json.loads(first)
        done = {**content["done"], **dict(_appended(more))}
        return Journal(
            content["settings"],
            {name: Seen(**one) for name, one in content["seen"].items()},
            content["together"],
            {key: [_made(one) for one in made] for key, made in done.items()},
        )
    except FileNotFoundError:
        return Journal()
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is not a journal of `spotrun data prepare` ({error}): choose another folder, "
            "or "
            "remove this one"
        ) from error


def write(folder: Path, journal: Journal) -> None:
    """Replace the journal as a whole."""
    replace(folder / NAME, json.dumps(asdict(journal)) + "\n")


@contextmanager
def appending(folder: Path) -> Iterator[Callable[[str, Sequence[Made]], None]]:
    """Yield a function that adds a group, by its key, to a journal that was just written."""
    with (folder / NAME).open("ab", buffering=0) as file:

        def add(key: str, made: Sequence[Made]) -> None:
            sync_folder(folder)  # the names of its shards
            file.write(json.dumps([key, [asdict(one) for one in made]]).encode() + b"\n")
            os.fsync(file.fileno())

        yield add


def replace(path: Path, content: str) -> None:
    """Write a file under another name first, so that no reader finds a partial file."""
    part = path.with_name(f".{path.name}.part")
    with part.open("w") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    sync_folder(path.parent)


def _appended(lines: Sequence[bytes]) -> Iterator[tuple[str, Sequence[Mapping[str, object]]]]:
    """Yield the groups of appended lines; the last line may have been cut off by a kill."""
    for number, line in enumerate(lines, start=1):
        try:
            key, made = json.loads(line)
        except ValueError:
            if number == len(lines):
                return
            raise
        yield key, made


def _made(read: Mapping[str, object]) -> Made:
    shard = read["shard"]
    if not isinstance(shard, dict):
        raise TypeError("a shard is no object")
    return Made(Shard(**shard), int(str(read["whole_bytes"])), int(str(read["tokens"])))
