"""Ends training processes at once."""

import os
import signal
from collections.abc import Container
from contextlib import suppress
from pathlib import Path


def kill_sessions(but: Container[int] = ()) -> None:
    """Kill this worker's training processes with everything that they have started.

    `but`: processes that do not train yet.

    torchrun would send SIGTERM and wait for 30 s, whatever --shutdown-timeout says (2.15:
    `LocalElasticAgent._stop_workers`). It starts each process as the leader of a session.
    """
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # a thread that has just ended
            for child in (task / "children").read_text().split():
                if int(child) not in but:
                    _kill_session(int(child))


def _kill_session(pid: int) -> None:
    with suppress(ProcessLookupError):
        if os.getsid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
