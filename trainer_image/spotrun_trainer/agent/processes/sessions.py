"""The sessions of this worker's training processes, read from /proc.

torchrun starts each process as the leader of a session, with all that it starts in turn.
"""

import os
import signal
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
_KEPT_NOWHERE = ("/dev/", "/proc/", "/sys/", "/memfd:")
_OURS = "SPOTRUN_DIR"  # the folder in which agent and processes speak to each other
_STANDARD = 3  # input, output and errors: files that torchrun opens
_STATE, _SESSION = 0, 3  # fields of /proc/PID/stat after the name in parentheses


def leaders(but: Container[int] = ()) -> Iterator[int]:
    """Yield the training processes that torchrun has started, without those in `but`."""
    for task in (PROC / "self/task").iterdir():
        with suppress(OSError):  # a thread that has just ended
            for child in map(int, (task / "children").read_text().split()):
                if child not in but and _leads(child):
                    yield child


def has_ended(pid: int) -> bool:
    """Whether a process has ended, be it a zombie."""
    fields = _stat(pid)
    return fields is None or fields[_STATE] in {"Z", "X"}


def is_held(pid: int) -> bool:
    """Whether a process is stopped, or has ended."""
    fields = _stat(pid)
    return fields is None or fields[_STATE] in {"T", "t", "Z", "X"}


def handles_sigterm(pid: int) -> bool:
    """Whether a process has a handler for SIGTERM."""
    return handles(pid, signal.SIGTERM)


def handles(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal."""
    with suppress(OSError):
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def members(leader: int) -> Iterator[int]:
    """Yield the processes of a session."""
    for pid in _numbers(PROC):
        fields = _stat(pid)
        if fields is not None and int(fields[_SESSION]) == leader:
            yield pid


def bytes_being_written(leader: int) -> dict[str, int]:
    """Return the size of each file that a session has open for writing, by process and path.

    Files opened for appending are logs, and so are those that torchrun opens for output.
    """
    found: dict[str, int] = {}
    others = (*_KEPT_NOWHERE, *filter(None, [os.environ.get(_OURS)]))
    for pid in members(leader):
        for number in _numbers(PROC / str(pid) / "fd"):
            with suppress(OSError):
                path = str((PROC / str(pid) / "fd" / str(number)).readlink())
                if not path.startswith("/") or path.startswith(others):
                    continue
                if number >= _STANDARD and (written := _written(pid, number)) is not None:
                    found[f"{pid}:{path}"] = written
    return found


def _written(pid: int, number: int) -> int | None:
    """Return the bytes written to a file; None if it is opened for reading or appending."""
    info = PROC / str(pid) / "fdinfo" / str(number)
    fields = dict(line.split(":", 1) for line in info.read_text().splitlines() if ":" in line)
    flags = int(fields["flags"], 8)
    if not flags & (os.O_WRONLY | os.O_RDWR) or flags & os.O_APPEND:
        return None
    size = (PROC / str(pid) / "fd" / str(number)).stat().st_size
    return max(size, int(fields["pos"]))


def _numbers(folder: Path) -> list[int]:
    with suppress(OSError):  # a process that has just ended, or somebody else's
        return [int(name) for name in os.listdir(folder) if name.isdigit()]  # noqa: PTH208 - names only
    return []


def _stat(pid: int) -> list[str] | None:
    with suppress(OSError):
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return None


def _leads(pid: int) -> bool:
    with suppress(ProcessLookupError):
        return os.getsid(pid) == pid
    return False
