"""The manifest of each rank, `rank-R.json`, and the marker of a complete checkpoint, `COMPLETE`.

A manifest has the length and hash of its rank's data file, and the slices in it. Rank 0's also has
the data that exists only once: the tensors' types and shapes, which names share storage, and the
values. If `shards` ranks hold one copy of the model together, rank R belongs to part R mod
`shards`, and the first rank of each part has this data for its part. The marker has the hashes of
all manifests, so every bit of a checkpoint except the marker's own is covered by a hash. Neither
names a file: names follow from ranks, so a path is never taken from content. All of it is validated
as untrusted input: a checkpoint may come from strangers.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard, TypeVar

from spotrun_trainer.checkpoint.format.digests import CRC32, DIGITS, SHA256
from spotrun_trainer.checkpoint.format.shard_plan import Slice
from spotrun_trainer.checkpoint.format.storage import SMALL_BYTES
from spotrun_trainer.state.flatten import DTYPES, JSON, Spec

FORMAT = 1
MOST_RANKS = 1_000_000
MOST_DIMENSIONS = 64  # torch's own limit
_T = TypeVar("_T")
_MOST_BYTES = 2**60
_HEX = re.compile(r"[0-9a-f]+")


@dataclass(frozen=True)
class Content:
    """The state, without the tensors' elements."""

    layout: Mapping[str, Spec] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)  # name: the one it shares storage with
    values: Mapping[str, JSON] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    """The names of each optimizer's parameters, by group, in the order of their numbers."""


@dataclass(frozen=True)
class Manifest:
    """One rank's part of a checkpoint."""

    attempt: str
    rank: int
    size: int
    header_bytes: int
    file_bytes: int
    digest: str  # of the data file
    slices: tuple[Slice, ...]
    content: Content | None = None  # of the first rank of each part
    shards: int = 1  # ranks that hold one copy of the model
    stages: int = 1  # groups of these ranks with different layers
    hashed_by: str = SHA256


@dataclass(frozen=True)
class Marker:
    """The proof that all parts exist: the hashes of their manifests, by rank."""

    attempt: str
    manifests: tuple[str, ...]


def data_file(rank: int) -> str:
    """The file with a rank's slices."""
    return f"rank-{rank}.safetensors"


def manifest_file(rank: int) -> str:
    """The file with a rank's manifest."""
    return f"rank-{rank}.json"


def sha256_of(content: bytes) -> str:
    """Return the hash as it is written in manifests and markers."""
    return hashlib.sha256(content).hexdigest()


def write_manifest(manifest: Manifest) -> bytes:
    """Return the file's content."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "attempt": manifest.attempt,
        "rank": manifest.rank,
        "size": manifest.size,
        "header_bytes": manifest.header_bytes,
        "file_bytes": manifest.file_bytes,
        manifest.hashed_by: manifest.digest,
        "slices": [[one.tensor, one.start, one.stop] for one in manifest.slices],
    }
    if manifest.shards > 1:
        document["shards"] = manifest.shards
    if manifest.stages > 1:
        document["stages"] = manifest.stages
    if content := manifest.content:
        document |= {
            "tensors": {name: [one.dtype, one.shape] for name, one in content.layout.items()},
            "aliases": dict(content.aliases),
            "values": dict(content.values),
            "extra": dict(content.extra),
            "parameters": dict(content.parameters),
        }
    return _dump(document)


def read_manifest(text: bytes) -> Manifest:
    """Read a manifest; raises ValueError that says what is wrong with it."""
    document = _load(text)
    size = _whole(document, "size", MOST_RANKS)
    hashed_by = CRC32 if CRC32 in document else SHA256
    return Manifest(
        attempt=_of_type(document, "attempt", str),
        rank=_whole(document, "rank", size - 1),
        size=size,
        header_bytes=_whole(document, "header_bytes", SMALL_BYTES),
        file_bytes=_whole(document, "file_bytes"),
        digest=_hash(document.get(hashed_by), DIGITS[hashed_by]),
        slices=tuple(map(_slice, _of_type(document, "slices", list))),
        content=_content(document) if "tensors" in document else None,
        shards=_whole(document, "shards", size) if "shards" in document else 1,
        stages=_whole(document, "stages", size) if "stages" in document else 1,
        hashed_by=hashed_by,
    )


def write_marker(marker: Marker) -> bytes:
    """Return the file's content, which is the same on every rank."""
    content = {"attempt": marker.attempt, "manifests": marker.manifests}
    return _dump({"format": FORMAT} | content)


def read_marker(text: bytes) -> Marker:
    """Read a marker; raises ValueError that says what is wrong with it."""
    document = _load(text)
    manifests = tuple(map(_hash, _of_type(document, "manifests", list)))
    if not 0 < len(manifests) <= MOST_RANKS:
        raise ValueError(f"it lists {len(manifests)} manifests")
    return Marker(_of_type(document, "attempt", str), manifests)


def _dump(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _load(text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not readable JSON: {error}") from error
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004
    if document.get("format") != FORMAT:
        shown = str(document.get("format"))[:20]
        raise ValueError(f"its format is {shown}, but this version reads {FORMAT}")
    return document


def _content(document: dict[str, Any]) -> Content:
    layout = {
        name: _spec(name, value) for name, value in _of_type(document, "tensors", dict).items()
    }
    aliases = _of_type(document, "aliases", dict)
    for name, shared in aliases.items():
        if name in layout or not isinstance(shared, str) or shared not in layout:
            raise ValueError(
                f"{name[:80]!r} is said to share storage with a tensor that it does not have"
            )
    values = _of_type(document, "values", dict)
    parameters = _of_type(document, "parameters", dict) if "parameters" in document else {}
    for thing, groups in parameters.items():
        if not isinstance(groups, list) or not all(map(_are_names, groups)):
            raise ValueError(f"the names of the parameters of {thing[:80]!r} are missing")
    return Content(layout, aliases, values, _of_type(document, "extra", dict), parameters)


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _spec(name: str, value: object) -> Spec:
    match value:
        case [str(dtype), [*shape]] if dtype in DTYPES and len(shape) <= MOST_DIMENSIONS:
            spec = Spec(dtype, tuple(filter(_is_size, shape)))
            if len(spec.shape) == len(shape) and spec.numel * spec.itemsize <= _MOST_BYTES:
                return spec
    raise ValueError(f"{name[:80]!r} does not have the type and shape of a tensor")


def _slice(value: object) -> Slice:
    match value:
        case [str(tensor), start, stop] if _is_size(start) and _is_size(stop) and start <= stop:
            return Slice(tensor, start, stop)
    raise ValueError(f"a slice is a name, a start and a stop, not {str(value)[:80]}")


def _is_size(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= _MOST_BYTES


def _whole(document: dict[str, Any], key: str, most: int = _MOST_BYTES) -> int:
    value = document.get(key)
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{key} is a number up to {most}, not {str(value)[:40]}")
    return value


def _of_type(document: dict[str, Any], key: str, kind: type[_T]) -> _T:
    value = document.get(key)
    if not isinstance(value, kind):
        raise ValueError(f"{key} is a {kind.__name__}, not {str(value)[:40]}")  # noqa: TRY004
    return value


def _hash(value: object, digits: int = DIGITS[SHA256]) -> str:
    if not isinstance(value, str) or len(value) != digits or not _HEX.fullmatch(value):
        raise ValueError(f"a hash has {digits} hexadecimal digits, not {str(value)[:80]}")
    return value
