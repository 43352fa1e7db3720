"""Checkpoints that are whole: a power cut, or the end of a process, leaves the last one in pieces.

Judged by what is in the files, so it holds for checkpoints that were saved before anybody asked.
"""

import json
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import torch.distributed as dist

_ZIPPED = {".pt", ".pth", ".bin", ".ckpt"}
"""torch.save writes a zip archive, whose table of contents comes last."""
_LENGTH_BYTES = 8


def newest_whole(
    candidates: Iterable[Path], is_whole: Callable[[Path], bool] | None = None
) -> Path | None:
    """Return the first candidate that is whole; rank 0 looks, so that all ranks take the same.

    `candidates` come newest first. Call it in all ranks, if their group is there already.
    """
    found: list[Path | None] = [None]
    is_together = dist.is_initialized()
    if not is_together or dist.get_rank() == 0:
        found = [_first_whole(candidates, is_whole or has_whole_files)]
    if is_together:
        dist.broadcast_object_list(found, src=0)
    return found[0]


def has_whole_files(path: Path) -> bool:
    """Whether no file is cut off, in a folder at any depth; False for an empty one."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return bool(files) and all(map(is_whole_file, files))


def is_whole_file(file: Path) -> bool:
    """Whether a file is as long as its own format says; True for formats that do not say it."""
    if file.suffix == ".safetensors":
        return _is_whole_safetensors(file)
    if file.suffix == ".json":
        return _is_json(file)
    return file.suffix not in _ZIPPED or zipfile.is_zipfile(file)


def _first_whole(candidates: Iterable[Path], is_whole: Callable[[Path], bool]) -> Path | None:
    return next((one for one in candidates if is_whole(one)), None)


def _is_whole_safetensors(file: Path) -> bool:
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(_LENGTH_BYTES), "little")
        size = file.stat().st_size
        if not 0 < length <= size - _LENGTH_BYTES:
            return False
        try:
            header = json.loads(opened.read(length))
        except ValueError:
            return False
    ends = [one["data_offsets"][1] for name, one in header.items() if name != "__metadata__"]
    return size == _LENGTH_BYTES + length + max(ends, default=0)


def _is_json(file: Path) -> bool:
    try:
        json.loads(file.read_bytes())
    except ValueError:
        return False
    return True
