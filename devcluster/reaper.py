"""Ends whatever a cluster or a container has started, wherever those processes went.

Sessions, process groups and parents can all be left behind; the environment that a process was
started with cannot. Every process of a cluster carries `DEVCLUSTER_MARKER`, every process of a
container `DEVCLUSTER_CONTAINER` too. A process belongs if its environment says so, if an ancestor
of it belongs, or if it is in a session that such a process leads; the last two catch children that
were given an empty environment.

As a program (`reaper.py MARKER DIRECTORY...`) it is the watchdog of a cluster: it blocks on its
standard input until the last holder of the pipe's other end is gone, be it by kill -9, and then
ends what carries the marker and removes the directories. It imports little, so that it is on guard
within some 30 ms.
"""

import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import NamedTuple

MARKER = "DEVCLUSTER_MARKER"
CONTAINER = "DEVCLUSTER_CONTAINER"

_ROUND_SECONDS = 0.002
# A process in the middle of execve has no environment for some microseconds, more when it is
# scheduled out just there. Some processes never have one, so this wait must end.
_STARTING_ROUNDS = 10
# How often a scan looks for processes born meanwhile; on a busy machine there are always some.
_PASSES = 20
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of linux/sched.h


class _Process(NamedTuple):
    pid: int
    parent: int
    session: int
    environment: frozenset[bytes]
    may_be_starting: bool


class _Scan(NamedTuple):
    found: set[int]
    starting: set[int]


def marked(marker: str, container: str | None = None) -> set[int]:
    """Return the living processes of a cluster, or of one of its containers."""
    return _scan(_wanted(marker, container)).found


def strike(marker: str, container: str | None = None) -> set[int]:
    """Kill, in one pass, what is there now; returns what was found.

    Everything is stopped before anything is killed, each process as soon as it is seen: the end of
    a control group looks simultaneous from inside, and no supervisor in there may live long enough
    to react to the loss of its child.
    """
    return _strike(_wanted(marker, container)).found


def kill_marked(marker: str, container: str | None = None, *, limit_seconds: float = 10) -> None:
    """Kill until nothing is left; raises TimeoutError naming what cannot be killed.

    A child that is forked between the scan and the signal inherits the marker, so that the next
    round finds it.
    """
    wanted = _wanted(marker, container)
    deadline = time.monotonic() + limit_seconds
    starting_rounds = 0
    while True:
        scan = _strike(wanted)
        if scan.found:
            starting_rounds = 0
        elif not scan.starting or starting_rounds == _STARTING_ROUNDS:
            return
        else:
            starting_rounds += 1
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {sorted(scan.found)} of {wanted} survive SIGKILL")
        time.sleep(_ROUND_SECONDS)  # a killed process takes a moment to be gone


def remove_tree(path: Path) -> None:
    """Remove a directory if it is there, also what its owner has write-protected."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        if path.exists():
            raise
    except PermissionError:
        path.chmod(0o700)
        for folder, names, _ in os.walk(path):
            for name in names:
                inner = Path(folder, name)
                if not inner.is_symlink():
                    inner.chmod(0o700)
        shutil.rmtree(path)


def main(marker: str, *directories: str) -> int:
    """Be the watchdog of one cluster; returns the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    folders = [Path(directory).resolve() for directory in directories]
    os.chdir("/")  # so as not to keep a directory in use
    sys.stdin.buffer.read()
    return int(not _clean_up(marker, folders))


def _clean_up(marker: str, folders: list[Path]) -> bool:
    complete = True
    try:
        kill_marked(marker)
    except TimeoutError as error:
        print(f"devcluster: {error}", file=sys.stderr)
        complete = False
    for folder in folders:
        try:
            remove_tree(folder)
        except OSError as error:
            print(f"devcluster: cannot remove {folder}: {error}", file=sys.stderr)
            complete = False
    return complete


def _wanted(marker: str, container: str | None) -> frozenset[bytes]:
    entries = [f"{MARKER}={marker}"]
    if container is not None:
        entries.append(f"{CONTAINER}={container}")
    return frozenset(map(os.fsencode, entries))


def _strike(wanted: frozenset[bytes]) -> _Scan:
    scan = _scan(wanted, freeze=True)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in scan.found:
            _signal(pid, number)
    return scan


def _scan(wanted: frozenset[bytes], *, freeze: bool = False) -> _Scan:
    """Look again for processes born during the scan: one may move on by forking and ending."""
    processes: list[_Process] = []
    seen: set[int] = set()
    for _ in range(_PASSES):
        fresh = _pids() - seen
        for pid in sorted(fresh, reverse=True):  # the newest may be gone soonest
            process = _read(pid)
            if process is not None:
                processes.append(process)
                if freeze and wanted <= process.environment:
                    _signal(pid, signal.SIGSTOP)
        if not fresh:
            break
        seen |= fresh
    found = _with_kin(processes, {p.pid for p in processes if wanted <= p.environment})
    return _Scan(found, {p.pid for p in processes if p.may_be_starting} - found)


def _pids() -> set[int]:
    names = os.listdir("/proc")  # noqa: PTH208 - only the names are needed, of hundreds
    return {int(name) for name in names if name.isdecimal()} - {os.getpid()}


def _with_kin(processes: list[_Process], found: set[int]) -> set[int]:
    while True:
        belonging = {
            process.pid
            for process in processes
            if process.pid in found or process.parent in found or process.session in found
        }
        if len(belonging) == len(found):
            return found
        found = belonging


def _read(pid: int) -> _Process | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        # The name before the last parenthesis may contain anything.
        state, parent, _, session, _, _, flags = stat[stat.rindex(b")") + 1 :].split()[:7]
        if state in (b"Z", b"X") or int(flags) & _KERNEL_THREAD:
            return None
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    except PermissionError:  # another user's; ancestry may still tell
        return _Process(pid, int(parent), int(session), frozenset(), may_be_starting=False)
    entries = frozenset(environment.split(b"\0"))
    return _Process(pid, int(parent), int(session), entries, may_be_starting=not environment)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        # Gone, or of another user by now (setuid): the next scan tells which.
        return


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
