"""The plan of a preparation: inputs in groups; only new and changed groups are processed.

A group is a unit of work: some small files, or a part of a large one. Its shards are named after
the content of its inputs and the settings. So a group that was done before is recognised by its
name.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from spotrun_trainer.data.load import Json
from spotrun_trainer.data.prepare.documents import LINES, Piece

GROUP_BYTES = 128 << 20
"""The input bytes of a group: about a minute of work, which each process loses if it is killed."""


@dataclass(frozen=True)
class Input:
    """A file that is prepared."""

    name: str
    path: str
    num_bytes: int
    sha256: str


@dataclass(frozen=True)
class Settings:
    """The options that decide, besides the inputs, the content of shards."""

    tokenizer: str
    column: str
    dtype: str
    end: int | None
    shard_bytes: int
    is_packed: bool

    def as_json(self) -> dict[str, Json]:
        """Return them as they are written in a manifest."""
        return {
            "tokenizer": self.tokenizer,
            "column": self.column,
            "dtype": self.dtype,
            "end": self.end,
            "shard_bytes": self.shard_bytes,
            "is_packed": self.is_packed,
        }


@dataclass(frozen=True)
class Group:
    """A unit of work, and the name of its result."""

    pieces: Sequence[Piece]
    key: str

    @property
    def num_bytes(self) -> int:
        """Return the size of its input."""
        return sum(piece.num_bytes for piece in self.pieces)


def groups_of(
    inputs: Sequence[Input],
    settings: Settings,
    known: Sequence[Sequence[str]] = (),
    group_bytes: int | None = None,
) -> list[Group]:
    """Return the groups of all inputs.

    `known` are the names of inputs that were together in groups before. Those that still exist stay
    together: so an added file changes no other group.
    """
    group_bytes = group_bytes or GROUP_BYTES
    left = {one.name: one for one in inputs}
    together = [[left.pop(name) for name in names if name in left] for names in known]
    together += _batches(list(left.values()), group_bytes)
    groups = [pieces for some in together for pieces in _pieces(some, group_bytes)]
    hashes = {one.name: one.sha256 for one in inputs}
    return [Group(pieces, _key(pieces, hashes, settings)) for pieces in groups if pieces]


def _batches(inputs: Sequence[Input], group_bytes: int) -> Iterator[list[Input]]:
    """Group files, in their order, until they have enough bytes."""
    batch, num_bytes = list[Input](), 0
    for one in inputs:
        if one.num_bytes > group_bytes and one.name.endswith(LINES):
            yield [one]  # alone, so that it is cut
            continue
        batch.append(one)
        num_bytes += one.num_bytes
        if num_bytes >= group_bytes:
            yield batch
            batch, num_bytes = [], 0
    yield batch


def _pieces(inputs: Sequence[Input], group_bytes: int) -> Iterator[list[Piece]]:
    """Cut a large file of lines into parts; leave all other inputs together."""
    if len(inputs) == 1 and inputs[0].name.endswith(LINES):
        (one,) = inputs
        for start in range(0, max(1, one.num_bytes), group_bytes):
            stop = min(start + group_bytes, one.num_bytes)
            yield [Piece(one.name, one.path, start, stop)]
        return
    yield [Piece(one.name, one.path, 0, one.num_bytes) for one in inputs]


def _key(pieces: Sequence[Piece], hashes: dict[str, str], settings: Settings) -> str:
    content = [(hashes[one.name], one.name, one.start, one.stop) for one in pieces]
    return sha256(f"1 {content} {settings}".encode()).hexdigest()[:16]
