"""The sessions of this worker's training processes, read from /proc.

torchrun starts each process as the leader of a session, which its children belong to as well.
"""

import os
import signal
from collections.abc import Collection, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_KEPT_NOWHERE = ("/dev/", "/proc/", "/sys/", "/memfd:")
_OURS = "SPOTRUN_DIR"  # the folder in which agent and processes speak to each other
_STANDARD = 3  # input, output and errors: files that torchrun opens
# Fields of /proc/PID/stat after the name in parentheses.
_STATE, _PARENT, _GROUP, _SESSION, _START = 0, 1, 2, 3, 19
_ENDS_BY_ITSELF = "torch_shm_manag"  # removes its clients' shared memory once these have ended


@dataclass(frozen=True)
class Process:
    """A process; its start time distinguishes it from a later one with the same number."""

    pid: int
    group: int
    start: str


def leaders(but: Container[int] = ()) -> Iterator[int]:
    """Yield the training processes that torchrun has started, without those in `but`."""
    for task in (PROC / "self/task").iterdir():
        with suppress(OSError):  # a thread that has just ended
            for child in map(int, (task / "children").read_text().split()):
                if child not in but and _leads(child):
                    yield child


def has_ended(pid: int) -> bool:
    """Whether a process has ended; a zombie has."""
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


def is_there(process: Process) -> bool:
    """Whether this process still exists, and not another one under its number."""
    fields = _stat(process.pid)
    return fields is not None and fields[_START] == process.start


def families(sessions: Collection[int]) -> frozenset[Process]:
    """Return the processes of sessions and all that these started, in sessions of their own too."""
    everybody = {pid: fields for pid in _numbers(PROC) if (fields := _stat(pid)) is not None}
    kin = {pid: {int(one[_PARENT]), int(one[_SESSION])} for pid, one in everybody.items()}
    found, more = set(sessions), set(sessions)
    while more:
        more = {pid for pid, of in kin.items() if pid not in found and not found.isdisjoint(of)}
        found |= more
    return frozenset(
        Process(pid, int(fields[_GROUP]), fields[_START])
        for pid, fields in everybody.items()
        if pid in found and _name(pid) != _ENDS_BY_ITSELF
    )


def bytes_being_written(pids: Iterable[int]) -> dict[str, int]:
    """Return the size of each file that processes have open for writing, by process and path.

    Files opened for appending are logs, and so are those that torchrun opens for output.
    """
    found: dict[str, int] = {}
    others = (*_KEPT_NOWHERE, *filter(None, [os.environ.get(_OURS)]))
    for pid in pids:
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
    with suppress(OSError):  # a process that has just ended, or of another user
        return [int(name) for name in os.listdir(folder) if name.isdigit()]  # noqa: PTH208 - names only
    return []


def _stat(pid: int) -> list[str] | None:
    with suppress(OSError):
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return None


def _name(pid: int) -> str:
    with suppress(OSError):
        return (PROC / str(pid) / "comm").read_text().strip()
    return ""


def _leads(pid: int) -> bool:
    with suppress(ProcessLookupError):
        return os.getsid(pid) == pid
    return False
