"""Safetensors files, one or several with an index, as Hugging Face's libraries write them.

Their headers are untrusted: all places and sizes in them are compared with the file.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spotrun_trainer.checkpoint.foreign.reading.file_ranges import (
    Extent,
    InFiles,
    file_in,
    is_size,
    read_small,
)
from spotrun_trainer.checkpoint.format.codes import CODES
from spotrun_trainer.checkpoint.format.manifest import MOST_DIMENSIONS
from spotrun_trainer.checkpoint.places.directory import SMALL_BYTES
from spotrun_trainer.parallel.division import Box
from spotrun_trainer.state.flatten import Spec

INDEX_ENDING = ".safetensors.index.json"
_DTYPES = {code: dtype for dtype, code in CODES.items()}
_LENGTH_BYTES = 8


def open_files(*files: Path) -> InFiles:
    """Open files that together contain all tensors."""
    specs, extents = dict[str, Spec](), dict[str, list[Extent]]()
    for file in files:
        for name, (spec, offset) in _tensors(file).items():
            if name in specs:
                raise ValueError(f"{file} has a tensor {name[:80]!r}, which another file has too")
            specs[name] = spec
            extents[name] = [Extent(Box.whole(spec.shape), file, offset)]
    return InFiles(specs, extents)


def open_index(index: Path) -> InFiles:
    """Open the files that an index names, in the index's folder."""
    content = _json(index, read_small(index, SMALL_BYTES))
    names = content.get("weight_map")
    if not isinstance(names, dict) or not names:
        raise ValueError(f"{index} has no weight_map")
    files = {file_in(index.parent, one): None for one in names.values()}
    found = open_files(*files)
    if missing := [name for name in names if name not in found.specs]:
        raise ValueError(f"{index} names a tensor {missing[0][:80]!r} that no file has")
    return found


def _tensors(file: Path) -> dict[str, tuple[Spec, int]]:
    """Return the tensors in a file, and their places."""
    if not file.is_file():
        raise ValueError(f"{file} does not exist, or is not a regular file")
    length = file.stat().st_size
    with file.open("rb") as stream:
        size = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
        if length < _LENGTH_BYTES or not 0 < size <= min(SMALL_BYTES, length - _LENGTH_BYTES):
            raise ValueError(
                f"{file} is not a safetensors file, or was cut off: its header is not valid"
            )
        header = _json(file, stream.read(size))
    header.pop("__metadata__", None)
    start = _LENGTH_BYTES + size
    found = {}
    for name, entry in header.items():
        spec, offset = _entry(file, name, entry, length - start)
        found[name] = spec, start + offset
    return found


def _entry(file: Path, name: str, entry: object, room: int) -> tuple[Spec, int]:
    match entry:
        case {"dtype": str(code), "shape": [*shape], "data_offsets": [begin, end]} if (
            code in _DTYPES
            and len(shape) <= MOST_DIMENSIONS
            and all(is_size(one) for one in (*shape, begin, end))
        ):
            spec = Spec(_DTYPES[code], tuple(shape))
            if end - begin == spec.numel * spec.itemsize and end <= room:
                return spec, begin
            raise ValueError(
                f"{file} is too short for its tensor {name[:80]!r}: its header is wrong, or it was "
                "cut off"
            )
    raise ValueError(f"{file} has an entry {name[:80]!r} that is not a tensor: {str(entry)[:80]}")


def _json(file: Path, text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} cannot be read: {str(error)[:120]}") from error
    if not isinstance(content, Mapping):
        raise ValueError(f"{file} cannot be read: it has no JSON object")  # noqa: TRY004
    return dict(content)
