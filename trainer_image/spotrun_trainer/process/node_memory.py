"""Memory of a worker that outlives its training processes: two files that only its agent holds.

They are only in memory, have no name in any folder, and end with the agent: a pod that goes away
leaves nothing behind, and the state of a lost node is lost. They count as memory of the container
that writes to them, and the size of /dev/shm does not limit them.
"""

import os
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path

VARIABLE = "SPOTRUN_KEPT"
"""The two files, as processes of the same user can open them."""


def offer_memory(environment: MutableMapping[str, str]) -> None:
    """Open the files, empty, for all processes that are started with this environment.

    If the kernel does not allow it there are none, and `keep` says so.
    """
    _close(environment.pop(VARIABLE, ""))
    with suppress(OSError, AttributeError):  # AttributeError: there are none outside of Linux
        # Its descriptors stay open until the process ends, however that happens.
        files = [os.memfd_create(f"spotrun-kept-{number}") for number in (0, 1)]
        environment[VARIABLE] = ":".join(f"/proc/{os.getpid()}/fd/{file}" for file in files)


def _close(offered: str) -> None:
    """Close the files of an agent that this process was before, and no files of others."""
    for name in offered.split(":"):
        file = name.removeprefix(f"/proc/{os.getpid()}/fd/")
        with suppress(OSError):
            if file.isdecimal() and str(Path(name).readlink()).startswith("/memfd:spotrun-kept-"):
                os.close(int(file))


def offered_memory(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the two files; none outside of a TrainingJob."""
    return tuple(Path(name) for name in environment.get(VARIABLE, "").split(":") if name)
