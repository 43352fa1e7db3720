"""The completion of a checkpoint: one rank reads all manifests, and writes the marker.

No collective is used: ranks look for each other's files. If each rank read all manifests, 1,024
ranks would open a million files. So rank 0 does that, and the others look for the marker only. If
it is missing although all parts exist, other ranks take over one after the other, in an order that
all know; then a few at a time. Of several markers the first one wins, and all have the same
content.

Files that must be seen are opened by name, because a listing of a network file system may be old. A
listing only tells whether taking over is worthwhile.
"""

from concurrent.futures import ThreadPoolExecutor

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
from spotrun_trainer.checkpoint.format.storage import FIRST_MANIFEST, MARKER, Storage
from spotrun_trainer.checkpoint.format.writer import Part

TURN_SECONDS = 1.0
"""Longer than it takes to read all manifests of a large world, many at a time."""
FEW_RANKS = 8
"""The largest world in which each rank looks without a limit on how often."""
LOOKS_PER_SECOND = 32
"""All ranks of a world together look for a marker this often while they train."""
SLOWEST_LOOK_SECONDS = 1.0
AT_A_TIME = 16
"""Manifests that are read at the same time: in an object store each takes some 20 ms."""


def turn_of(rank: int, size: int) -> int:
    """Return after how many turns without a marker this rank completes a checkpoint; 0: at once.

    The first turn belongs to the last rank, the second to two others, the third to four: with 1,024
    ranks all have had their turn after ten. The last ranks are rarely on the node of the first.
    """
    return ((size - rank) % size).bit_length()


def pause_seconds(rank: int, size: int, *, is_awaited: bool) -> float:
    """Return the least time between two checks by a rank, which grows with the world.

    At the end of a training no rank computes, and all check each second.
    """
    if turn_of(rank, size) == 0 or size <= FEW_RANKS:
        return 0.0
    fair = size / LOOKS_PER_SECOND
    return min(fair, SLOWEST_LOOK_SECONDS) if is_awaited else fair


def find_marker(place: Storage, name: Name) -> Marker | None:
    """Return the marker of a complete checkpoint; None if it does not exist.

    Raises OSError if that cannot be found out, and ValueError if the file is not a valid marker.
    """
    try:
        return read_marker(place.read(name, MARKER))
    except FileNotFoundError:
        return None


def is_complete(place: Storage, name: Name) -> bool:
    """Whether a checkpoint has its first part and its marker, even an unreadable one.

    A rank that was suspended may write its marker after the checkpoint was deleted: then only the
    marker exists. It must not count as a checkpoint, and above all not as one of those to keep.
    """
    try:
        if find_marker(place, name) is None:
            return False
    except ValueError:  # it exists; loading it reports what is wrong
        pass
    try:
        with place.opened(name, FIRST_MANIFEST) as manifest:
            return manifest.size >= 0
    except FileNotFoundError:
        return False


def newest_complete(place: Storage) -> Name | None:
    """Return the newest checkpoint that has its marker."""
    return next((name for name in reversed(place.names()) if is_complete(place, name)), None)


def is_complete_already(place: Storage, part: Part) -> bool:
    """Whether this attempt has saved it; makes a checkpoint of another attempt incomplete.

    Safe at any time before this rank's manifest exists: without it no rank can write a marker.
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
    """The state of one checkpoint, as a rank sees it that has written its own part."""

    def __init__(self, place: Storage, part: Part, manifest: str, *, now: float) -> None:
        self.name = part.name
        self.turn = turn_of(part.rank, part.size)
        self._place = place
        self._part = part
        self._own = manifest
        self._seen = {part.rank: manifest}
        self._wait_seconds = TURN_SECONDS * self.turn
        self._lists_at = now + self._wait_seconds
        self._all_there_at: float | None = None

    @property
    def missing(self) -> int | None:
        """The first rank whose part is missing; None if the listing shows all."""
        there = self._seen if self.turn == 0 else self._listed()
        return next((rank for rank in range(self._part.size) if rank not in there), None)

    def reached(self, now: float, *, is_ending: bool = False) -> bool:
        """Check once; raises CheckpointError if this rank's part is not the one that counts.

        A process that ends does not wait for its turn: it may be the last one that runs.
        """
        if self.turn == 0:
            self._complete_if_all_there()
        if self._is_marked():
            return True
        if self.turn == 0 or not (self._takes_over(now) or (is_ending and self._is_all_there())):
            return False
        self._complete_if_all_there()
        return self._is_marked()

    def _is_marked(self) -> bool:
        try:
            marker = find_marker(self._place, self.name)
        except (OSError, ValueError):  # another rank is writing it, or it can be read only later
            return False
        if marker is None:
            return False
        if marker.manifests[self._part.rank : self._part.rank + 1] != (self._own,):
            raise CheckpointError(
                f"{self.name} was completed without the part that rank {self._part.rank} wrote "
                "here: two "
                "trainings, or two processes of one rank, save to the same place; give each its own"
            )
        return True

    def _takes_over(self, now: float) -> bool:
        """Whether all parts have existed until this rank's turn, and no rank completed them."""
        if self._all_there_at is None and now >= self._lists_at:
            self._lists_at = now + self._wait_seconds
            self._all_there_at = now if self._is_all_there() else None
        return self._all_there_at is not None and now - self._all_there_at >= self._wait_seconds

    def _is_all_there(self) -> bool:
        return len(self._listed()) == self._part.size

    def _listed(self) -> set[int]:
        try:
            files = {one.name for one in self._place.files(self.name)}
        except OSError:
            return {self._part.rank}
        return {rank for rank in range(self._part.size) if manifest_file(rank) in files}

    def _complete_if_all_there(self) -> None:
        """Read manifests until one is missing, more and more at a time; then write the marker."""
        at_a_time = 1
        while missing := [rank for rank in range(self._part.size) if rank not in self._seen]:
            some = missing[:at_a_time]
            found = dict(zip(some, self._read(some), strict=True))
            self._seen |= {rank: one for rank, one in found.items() if one is not None}
            if None in found.values():
                return
            at_a_time = min(2 * at_a_time, AT_A_TIME)
        manifests = tuple(self._seen[rank] for rank in range(self._part.size))
        text = write_marker(Marker(self._part.attempt, manifests))
        self._place.write_once(self.name, MARKER, text, self._part.rank)

    def _read(self, ranks: list[int]) -> list[str | None]:
        if len(ranks) == 1:
            return [self._manifest(ranks[0])]
        try:
            with ThreadPoolExecutor(len(ranks), "manifests") as pool:
                return list(pool.map(self._manifest, ranks))
        except RuntimeError:  # no thread can start any more, because the interpreter ends
            return list(map(self._manifest, ranks))

    def _manifest(self, rank: int) -> str | None:
        try:
            text = self._place.read(self.name, manifest_file(rank))
            manifest = read_manifest(text)
        except (OSError, ValueError):
            return None
        expected = (self._part.attempt, self._part.size, rank)
        if (manifest.attempt, manifest.size, manifest.rank) != expected:
            return None
        return sha256_of(text)
