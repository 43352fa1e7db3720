"""The file or folder that an export makes: it has another name until it is complete."""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def made_whole(
    output: Path, *, files: re.Pattern[str] | None, force: bool, num_bytes: int
) -> Iterator[Path]:
    """Yield a path beside the output, which becomes the output at the end or is removed on failure.

    A folder is recognised as an export by the names of its files; None makes a file. Raises
    ValueError if something exists that must not be replaced, or if there is too little space.
    """
    is_folder = files is not None
    _check(output, files, force=force)
    output.parent.mkdir(parents=True, exist_ok=True)
    if (free := shutil.disk_usage(output.parent).free) < num_bytes:
        raise ValueError(f"{output.parent} has {free} bytes free, but the export needs {num_bytes}")
    token = secrets.token_hex(4)
    made, old = (output.parent / f".{output.name}.{token}.{what}" for what in ("part", "old"))
    try:
        if is_folder:
            made.mkdir()
        yield made
        _check(output, files, force=force)  # it may have been created meanwhile
        if files is not None:
            _check_replaced(output, made, files)
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


def _check(output: Path, files: re.Pattern[str] | None, *, force: bool) -> None:
    is_folder = files is not None
    if not output.name:
        raise ValueError(f"{output} cannot be the name of an export: give a name in a folder")
    if output.is_symlink() or (output.exists() and output.is_dir() != is_folder):
        kind = "folder" if is_folder else "file"
        raise ValueError(f"{output} exists and is not a {kind}: choose another name")
    if not output.exists() or (is_folder and not any(output.iterdir())):
        return
    if not force:
        raise ValueError(f"{output} exists already: use --force to replace it")
    if files is not None and not _is_export(output, files):
        raise ValueError(
            f"{output} has files that no such export has, and --force would remove them: choose "
            "another name"
        )


def _is_export(folder: Path, files: re.Pattern[str]) -> bool:
    entries = list(folder.iterdir())
    are_files = all(one.is_file() and not one.is_symlink() for one in entries)
    return are_files and any(files.fullmatch(one.name) for one in entries)


def _check_replaced(output: Path, made: Path, files: re.Pattern[str]) -> None:
    """Check that only weights are lost: the folder may be a model that was downloaded."""
    there = {one.name for one in output.iterdir()} if output.exists() else set[str]()
    lost = there - {one.name for one in made.iterdir()}
    for name in sorted(one for one in lost if not files.fullmatch(one)):
        raise ValueError(
            f"{output} has {name}, which is not in this export, and --force would remove it: "
            "choose another name"
        )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems cannot sync folders
        if not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
