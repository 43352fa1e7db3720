"""The work that a preparation has done so far, in a file of its own beside the shards.

It is written after each group. The manifest, which readers look for, is written at the end.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from spotrun_trainer.data.load import Json
from spotrun_trainer.data.places import Shard
from spotrun_trainer.data.prepare.work import Made

NAME = "_prepared.json"
PART = f".{NAME}.part"
"""The file that becomes it."""


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
        content = json.loads(path.read_bytes())
        return Journal(
            content["settings"],
            {name: Seen(**one) for name, one in content["seen"].items()},
            content["together"],
            {key: [_made(one) for one in made] for key, made in content["done"].items()},
        )
    except FileNotFoundError:
        return Journal()
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is no journal of `spotrun data prepare` ({error}): choose another folder, or "
            "remove this one"
        ) from error


def write(folder: Path, journal: Journal) -> None:
    """Replace the journal as a whole."""
    replace(folder / NAME, json.dumps(asdict(journal)))


def replace(path: Path, content: str) -> None:
    """Write a file under another name first, so that no reader finds half of it."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(content)
    part.replace(path)


def _made(read: Mapping[str, object]) -> Made:
    shard = read["shard"]
    if not isinstance(shard, dict):
        raise TypeError("a shard is no object")
    return Made(Shard(**shard), int(str(read["whole_bytes"])), int(str(read["tokens"])))
