"""Ends all processes that a cluster or a container has started, wherever they are.

A process can leave its session, process group and parent, but not the environment that it was
started with. Every process of a cluster has `DEVCLUSTER_MARKER` in its environment, and every
process of a container also `DEVCLUSTER_CONTAINER`. A process belongs to the cluster if its
environment says so, if one of its ancestors belongs to it, or if it is in a session that such a
process leads; the last two rules find children that were given an empty environment.

As a program (`reaper.py MARKER DIRECTORY...`) it is the watchdog of a cluster: it blocks on its
standard input until the last holder of the pipe's other end is gone, even by kill -9. Then it ends
all processes with the marker and removes the directories. It imports little, so that it is active
within about 30 ms.
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
# A process in the middle of execve has no environment for some microseconds, or longer if it is
# scheduled out then. Some processes never have one, so this wait must end.
_STARTING_ROUNDS = 10
# How often a scan repeats for new processes; on a busy machine there are always some.
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
    """Kill all existing processes in one pass; returns those that were found.

    All processes are stopped, each as soon as it is seen, before any is killed: a real control
    group seems to end at one moment, so no supervisor in it may run long enough to react to the
    loss of its child.
    """
    return _strike(_wanted(marker, container)).found


def kill_marked(marker: str, container: str | None = None, *, limit_seconds: float = 10) -> None:
    """Kill until no process is left; raises TimeoutError with those that cannot be killed.

    A child that is forked between the scan and the signal inherits the marker, so the next round
    finds it.
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
    """Remove a directory if it exists, including write-protected content."""
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
    """Run as the watchdog of one cluster; returns the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    folders = [Path(directory).resolve() for directory in directories]
    os.chdir("/")  # so that no directory stays in use
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
    """Scan until there are no new processes: one may escape by forking and ending."""
    processes: list[_Process] = []
    seen: set[int] = set()
    for _ in range(_PASSES):
        fresh = _pids() - seen
        for pid in sorted(fresh, reverse=True):  # the newest may end first
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
        # The name before the last parenthesis may contain any characters.
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
        # It has ended, or belongs to another user now (setuid): the next scan finds out.
        return


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
