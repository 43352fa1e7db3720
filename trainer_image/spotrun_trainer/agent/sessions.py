"""Ends training processes at once."""

import os
import signal
from contextlib import suppress
from pathlib import Path


def kill_sessions() -> None:
    """Kill this worker's training processes with everything that they have started.

    torchrun would send SIGTERM and wait for 30 s, whatever --shutdown-timeout says (2.15:
    `LocalElasticAgent._stop_workers`). It starts each process as the leader of a session.
    """
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # a thread that has just ended
            for child in (task / "children").read_text().split():
                _kill_session(int(child))


def _kill_session(pid: int) -> None:
    with suppress(ProcessLookupError):
        if os.getsid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
