"""The completion of a checkpoint: the first rank that sees all parts writes the marker.

No collective: ranks look for each other's manifests. Each is opened by its name, since a listing of
a network file system may be old, and only the next missing one is looked for.
"""

from spotrun_trainer.checkpoint.errors import CheckpointError
from spotrun_trainer.checkpoint.format.manifest import (
    Marker,
    manifest_file,
    read_manifest,
    read_marker,
    sha256_of,
    write_marker,
)
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.storage import MARKER, Storage
from spotrun_trainer.checkpoint.format.writer import Part


def find_marker(place: Storage, name: Name) -> Marker | None:
    """Return the marker of a complete checkpoint; None if it is not there.

    Raises OSError if that cannot be known, and ValueError if the file is no valid marker.
    """
    try:
        return read_marker(place.read(name, MARKER))
    except FileNotFoundError:
        return None


def is_complete(place: Storage, name: Name) -> bool:
    """Whether a checkpoint has its marker, if only one that cannot be read."""
    try:
        return find_marker(place, name) is not None
    except ValueError:
        return True


def newest_complete(place: Storage) -> Name | None:
    """Return the newest checkpoint that has its marker."""
    return next((name for name in reversed(place.names()) if is_complete(place, name)), None)


def is_complete_already(place: Storage, part: Part) -> bool:
    """Whether this attempt has saved it; a checkpoint of another attempt is made incomplete.

    Safe at any time before this rank's manifest is there: without it no rank can write a marker.
    """
    try:
        marker = find_marker(place, part.name)
    except ValueError:  # a checkpoint with this marker cannot be loaded
        marker = None
    if marker and marker.attempt == part.attempt:
        return True
    place.remove_file(part.name, MARKER)
    place.remove_file(part.name, manifest_file(part.rank))
    return False


class Completion:
    """One checkpoint, as seen by a rank that has written its own part."""

    def __init__(self, place: Storage, part: Part, manifest: str) -> None:
        self.name = part.name
        self._place = place
        self._part = part
        self._own = manifest
        self._seen: list[str] = []

    @property
    def missing(self) -> int:
        """The first rank whose part was not seen."""
        return len(self._seen)

    def reached(self) -> bool:
        """Look once; raises CheckpointError if this rank's part is not the one that counts."""
        while len(self._seen) < self._part.size and (manifest := self._manifest(self.missing)):
            self._seen.append(manifest)
        if len(self._seen) == self._part.size:
            text = write_marker(Marker(self._part.attempt, tuple(self._seen)))
            self._place.write_once(self.name, MARKER, text, self._part.rank)
        try:
            marker = find_marker(self._place, self.name)
        except (OSError, ValueError):  # another rank is writing it, or it is to be read later
            return False
        if marker is None:
            return False
        if marker.manifests[self._part.rank : self._part.rank + 1] != (self._own,):
            raise CheckpointError(
                f"{self.name} was completed without what rank {self._part.rank} wrote here: two "
                "trainings, or two processes of one rank, save to the same place; give each its own"
            )
        return True

    def _manifest(self, rank: int) -> str | None:
        if rank == self._part.rank:
            return self._own
        try:
            text = self._place.read(self.name, manifest_file(rank))
            manifest = read_manifest(text)
        except (OSError, ValueError):
            return None
        expected = (self._part.attempt, self._part.size, rank)
        if (manifest.attempt, manifest.size, manifest.rank) != expected:
            return None
        return sha256_of(text)
