"""The folder for checkpoints, made and tried before the training begins.

Without this check an unwritable folder shows only in a log line of the first save, and the last
save fails a training that is otherwise complete.
"""

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

_FULL = {errno.ENOSPC, errno.EDQUOT}
"""A full disk is not a matter of rights, and is temporary: replaced checkpoints are deleted."""


def make_writable(folder: Path, *, is_shared: bool = False) -> None:
    """Make a folder and check that files can be made there; raises ValueError with what to try.

    In a shared volume new folders get the same mode as the volume: in a folder that jobs share,
    each makes its own, and they need not run as the same user.
    """
    try:
        if is_shared:
            _make_as_open(folder)
        folder.mkdir(parents=True, exist_ok=True)
        _try(folder)
    except OSError as error:
        raise ValueError(_refusal(folder, error)) from error


def _make_as_open(folder: Path) -> None:
    if folder.is_dir():
        return
    _make_as_open(folder.parent)
    with suppress(FileExistsError):  # several workers begin at the same time
        folder.mkdir()
        with suppress(PermissionError):  # some network file systems have modes of their own
            folder.chmod(stat.S_IMODE(folder.parent.stat().st_mode))


def _try(folder: Path) -> None:
    file = folder / f".tried-{secrets.token_hex(8)}"
    try:
        file.touch(exist_ok=False)
    except OSError as error:
        if error.errno in _FULL:
            return
        raise
    file.unlink()


def _refusal(folder: Path, error: OSError) -> str:
    group = os.getegid()
    groups = ", ".join(map(str, sorted({group, *os.getgroups()})))
    return (
        f"checkpoints cannot be written to {folder} by user {os.geteuid()} (groups {groups}): "
        f"{error.strerror}; {_owner(folder)}. Make it writable for that user, or choose another "
        f"place. In a TrainingJob set securityContext.fsGroup: {group} in the template's spec, "
        "make an NFS server's export writable for that user, or name another claim"
    )


def _owner(folder: Path) -> str:
    """Describe the owner of the folder, or of the folder that it would be made in."""
    for path in (folder, *folder.parents):
        with suppress(OSError):
            there = path.stat()
            mode = f"{stat.S_IMODE(there.st_mode):o}"
            return f"{path} belongs to user {there.st_uid}, group {there.st_gid}, with mode {mode}"
    return "its owner is unknown"
