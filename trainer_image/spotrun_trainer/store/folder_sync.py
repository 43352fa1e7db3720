"""The sync of a folder: what was made, renamed or removed in it outlasts a power loss."""

import errno
import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where its file system can."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems have none
            raise
    finally:
        os.close(descriptor)
