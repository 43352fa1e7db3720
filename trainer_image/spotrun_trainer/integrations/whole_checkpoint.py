"""Checkpoints that are whole: a power cut, or the end of a process, leaves the last one incomplete.

The content of the files is checked, so this also works for checkpoints saved without spotrun.
"""

import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path

import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # not in __all__

_ZIPPED = {".pt", ".pth", ".bin", ".ckpt"}
"""torch.save writes a zip archive, whose table of contents comes last."""
_LENGTH_BYTES = 8
_PATIENCE = timedelta(minutes=10)
"""The first rank may have to check many large files."""
_questions = count()
"""Numbers of the questions that are asked before there is a group of ranks; all processes ask the
same ones in the same order."""


def newest_whole(
    candidates: Iterable[Path], is_whole: Callable[[Path], bool] | None = None
) -> Path | None:
    """Return the first candidate that is whole; rank 0 checks, so that all ranks take the same.

    `candidates` come newest first. Call it equally often in all ranks. Before they have a group,
    they ask through the store of the job's agent; outside of a job, each checks for itself.
    """

    def look() -> Path | None:
        return next((one for one in candidates if (is_whole or has_whole_files)(one)), None)

    if not dist.is_initialized():
        return _told_in_store(look) if _has_agent_store() else look()
    found = [look() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(found, src=0)
    return found[0]


@contextmanager
def made_by_all(
    checkpoint: Path, *, draft: Path, is_first: bool, wait_for_all: Callable[[], None]
) -> Iterator[None]:
    """Let all ranks write into a draft, which gets the checkpoint's name when all have written."""
    if is_first:
        shutil.rmtree(draft, ignore_errors=True)  # of a process that was ended during its save
    wait_for_all()
    yield
    wait_for_all()
    if is_first:
        shutil.rmtree(checkpoint, ignore_errors=True)
        draft.rename(checkpoint)


def newest_first(folder: Path, prefix: str) -> list[Path]:
    """Return the entries of a folder named by a prefix and a number, the highest number first."""
    found = [one for one in folder.glob(f"{prefix}*") if one.name[len(prefix) :].isdecimal()]
    return sorted(found, key=lambda one: number_of(one, prefix), reverse=True)


def number_of(checkpoint: Path, prefix: str) -> int:
    """Return the number after the prefix."""
    return int(checkpoint.name.removeprefix(prefix))


def has_whole_files(path: Path) -> bool:
    """Whether no file is cut off, in a folder at any depth; False for an empty one."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return bool(files) and all(map(is_whole_file, files))


def is_whole_file(file: Path) -> bool:
    """Whether a file has the length that its format states; True for formats that state none."""
    if file.suffix == ".safetensors":
        return _is_whole_safetensors(file)
    if file.suffix == ".json":
        return _is_json(file)
    return file.suffix not in _ZIPPED or zipfile.is_zipfile(file)


def _has_agent_store() -> bool:
    env = os.environ
    is_there = "SPOTRUN_WORLD_NUMBER" in env and env.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return is_there and int(env.get("WORLD_SIZE", "1")) > 1


def _told_in_store(look: Callable[[], Path | None]) -> Path | None:
    """Return what the first rank has found; a key belongs to one start of the processes."""
    env = os.environ
    store = TCPStore(env["MASTER_ADDR"], int(env["MASTER_PORT"]), timeout=_PATIENCE)
    names = ("TORCHELASTIC_RUN_ID", "SPOTRUN_WORLD_NUMBER", "TORCHELASTIC_RESTART_COUNT")
    start = "/".join(env.get(name, "") for name in names)
    key = f"newest-checkpoint/{start}/{next(_questions)}"
    if env["RANK"] == "0":
        found = look()
        store.set(key, str(found) if found is not None else "")
        return found
    return Path(said) if (said := store.get(key).decode()) else None


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
