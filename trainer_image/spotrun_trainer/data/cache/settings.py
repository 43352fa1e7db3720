"""The place of a node's cache, and its limit."""

import os
import shutil
from functools import lru_cache
from pathlib import Path
from tempfile import gettempdir

from spotrun_trainer.data.cache.node_cache import NodeCache
from spotrun_trainer.process.commands.texts import bytes_of_text

SHARE = 0.5
"""The share of the disk that is used without SPOTRUN_DATA_CACHE_SIZE."""


def node_cache() -> NodeCache:
    """Return the cache that the environment names; this process has one for each folder."""
    named = os.environ.get("SPOTRUN_DATA_CACHE")
    root = Path(named) if named else _own_folder()
    return _cache_in(root, os.environ.get("SPOTRUN_DATA_CACHE_SIZE", ""))


def _own_folder() -> Path:
    """Return a folder of this user alone; raises ValueError if another user has made it."""
    root = Path(gettempdir()) / f"spotrun-data-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    if root.is_symlink() or root.stat().st_uid != os.getuid():
        raise ValueError(
            f"{root} belongs to another user: set another folder with SPOTRUN_DATA_CACHE=/path"
        )
    return root


@lru_cache(maxsize=8)
def _cache_in(root: Path, size: str) -> NodeCache:
    try:
        limit = bytes_of_text(size) if size else 0
    except ValueError as error:
        raise ValueError(f"SPOTRUN_DATA_CACHE_SIZE: {error}") from error
    disk = next(one for one in (root.absolute(), *root.absolute().parents) if one.is_dir())
    return NodeCache(root, limit or int(SHARE * shutil.disk_usage(disk).total))
