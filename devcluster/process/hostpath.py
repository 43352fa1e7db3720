"""`hostPath` volumes: checked, and created if their type requires it."""

from collections.abc import Callable
from pathlib import Path

from devcluster.kubelet.runtime import StartError

_CHECKS: dict[str, Callable[[Path], bool]] = {
    "": Path.exists,
    "Directory": Path.is_dir,
    "DirectoryOrCreate": Path.is_dir,
    "File": Path.is_file,
    "FileOrCreate": Path.is_file,
    "Socket": Path.is_socket,
    "CharDevice": Path.is_char_device,
    "BlockDevice": Path.is_block_device,
}


def host_path(path: str, kind: str) -> Path:
    """Return a path of this machine that is of the requested kind; raises StartError."""
    place = Path(path)
    if not place.exists():
        # A kubelet checks nothing for the empty type; container runtimes then create a directory.
        if kind in ("", "DirectoryOrCreate"):
            place.mkdir(parents=True, exist_ok=True)
        elif kind == "FileOrCreate":
            place.touch()
    if not _CHECKS[kind](place):
        raise StartError("FailedMount", f"hostPath type check failed: {path} is not a {kind}")
    return place
