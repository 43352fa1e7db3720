"""The sync of a folder: what was created, renamed or removed in it survives a power loss."""

import errno
import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, if its file system can."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems have none
            raise
    finally:
        os.close(descriptor)
