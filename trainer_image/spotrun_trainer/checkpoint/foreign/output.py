"""The file or folder that an export makes: under another name until it is whole."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OURS = {"model.safetensors", "model.safetensors.index.json", ".metadata"}


@contextmanager
def made_whole(output: Path, *, is_folder: bool, force: bool, num_bytes: int) -> Iterator[Path]:
    """Yield a path beside the output, which becomes the output at the end, and else is removed.

    Raises ValueError where something is there that must not be replaced, or too little space.
    """
    _check(output, is_folder=is_folder, force=force)
    output.parent.mkdir(parents=True, exist_ok=True)
    if (free := shutil.disk_usage(output.parent).free) < num_bytes:
        raise ValueError(
            f"{output.parent} has {free} bytes free, and {num_bytes} are to be written"
        )
    token = secrets.token_hex(4)
    made, old = (output.parent / f".{output.name}.{token}.{what}" for what in ("part", "old"))
    try:
        if is_folder:
            made.mkdir()
        yield made
        _check(output, is_folder=is_folder, force=force)  # it may have come meanwhile
        for path in [*made.iterdir(), made] if is_folder else [made]:
            _sync(path)
        if is_folder and output.exists():
            output.rename(old)
        made.replace(output)
    except BaseException:
        if old.exists() and not output.exists():
            old.rename(output)
        _remove(made)
        raise
    _remove(old)
    _sync(output.parent)


def _check(output: Path, *, is_folder: bool, force: bool) -> None:
    if not output.name:
        raise ValueError(f"{output} is no name for an export: give one in a folder")
    if output.is_symlink() or (output.exists() and output.is_dir() != is_folder):
        kind = "folder" if is_folder else "file"
        raise ValueError(f"{output} is there, and is no {kind}: choose another name")
    if not output.exists() or (is_folder and not any(output.iterdir())):
        return
    if not force:
        raise ValueError(f"{output} is there already: --force replaces it")
    if is_folder and not _is_export(output):
        raise ValueError(
            f"{output} has other files than an export's, which --force would remove: choose "
            "another name"
        )


def _is_export(folder: Path) -> bool:
    entries = list(folder.iterdir())
    are_files = all(one.is_file() and not one.is_symlink() for one in entries)
    return are_files and not _OURS.isdisjoint(one.name for one in entries)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems have none of folders
        if not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
