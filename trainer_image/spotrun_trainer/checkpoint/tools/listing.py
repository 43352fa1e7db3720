"""`ls`: the checkpoints of a folder."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from spotrun_trainer.checkpoint.errors import DamagedCheckpointError
from spotrun_trainer.checkpoint.foreign.saved import Saved
from spotrun_trainer.checkpoint.format.completion import is_complete
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.storage import MARKER, FileFacts, Storage
from spotrun_trainer.process.commands.texts import age_text, size_text, table

State = Literal["complete", "incomplete", "damaged"]


@dataclass(frozen=True)
class Entry:
    """A checkpoint, described by its names, lengths and manifests; content is not read."""

    name: str
    step: int
    world_number: int
    state: State
    bytes: int
    age_seconds: float
    writers: str = ""
    why: str = ""  # the damage, if any


def entries(place: Storage, now: float) -> list[Entry]:
    """Return the checkpoints of a folder, oldest first."""
    return [_entry(place, name, now) for name in place.names()]


def listing(found: list[Entry]) -> str:
    """Return them as a table, with the reasons for damage below it."""
    head = ("NAME", "STATE", "SIZE", "AGE", "WRITTEN BY")
    rows = [
        (one.name, one.state, size_text(one.bytes), age_text(one.age_seconds), one.writers)
        for one in found
    ]
    return "\n".join([table(head, rows), *(one.why for one in found if one.why)])


def as_json(found: list[Entry]) -> list[dict[str, Any]]:
    """Return them as `-o json` prints them."""
    return [asdict(one) for one in found]


def writers_of(saved: Saved) -> str:
    """Describe the processes that wrote a checkpoint."""
    size, parts = len(saved.manifests), len(saved.parts)
    count = f"{size} process{'es' * (size > 1)}"
    if parts == 1:
        return count
    stages = [f"{saved.num_stages} stages"] if saved.num_stages > 1 else []
    by = f" ({', '.join(stages + saved.meshes)})" if stages + saved.meshes else ""
    copies = f"{saved.num_copies} cop{'ies' if saved.num_copies > 1 else 'y'}"
    return f"{count}: {copies} in {parts} parts{by}"


def _entry(place: Storage, name: Name, now: float) -> Entry:
    files = place.files(name)
    num_bytes = sum(one.bytes for one in files)
    age_seconds = now - _written(files, now)
    known = (str(name), name.step, name.world_number)
    if not is_complete(place, name):
        return Entry(*known, "incomplete", num_bytes, age_seconds)
    try:
        writers = writers_of(Saved(place, name))
    except DamagedCheckpointError as error:
        return Entry(*known, "damaged", num_bytes, age_seconds, why=str(error))
    return Entry(*known, "complete", num_bytes, age_seconds, writers)


def _written(files: Sequence[FileFacts], now: float) -> float:
    """Return when a checkpoint was completed; of an incomplete one, when a file was last written.

    A checkpoint without files was made a moment ago.
    """
    of_marker = [one.modified for one in files if one.name == MARKER]
    return max(of_marker or [one.modified for one in files], default=now)
