"""Kill training processes at once."""

import os
import signal
from collections.abc import Container
from contextlib import suppress

from spotrun_trainer.agent.processes.sessions import Process, families, is_there, leaders


def kill_sessions(but: Container[int] = (), *, also: frozenset[Process] = frozenset()) -> None:
    """Kill this worker's training processes with everything that they have started.

    `but` has the processes to spare, which do not train yet; `also` has others to kill, which the
    training processes started before they ended.

    torchrun would send SIGTERM and wait for 30 s, regardless of --shutdown-timeout (2.15:
    `LocalElasticAgent._stop_workers`).
    """
    sessions = set(leaders(but))
    # Found before the kill: after it nothing links a process to a child in another session.
    found = families(sessions) | {process for process in also if is_there(process)}
    for leader in sessions:
        with suppress(ProcessLookupError):
            os.killpg(leader, signal.SIGKILL)
    killed = frozenset[Process]()
    while rest := found - killed:
        for process in rest:
            send_signal(process, signal.SIGKILL)
        killed |= rest
        found = families({*sessions, *(process.pid for process in found)})  # started meanwhile


def send_signal(process: Process, number: signal.Signals) -> None:
    """Send a signal to a process if it is still there."""
    if is_there(process):
        with suppress(ProcessLookupError, PermissionError):  # another user's, such as of sudo
            os.kill(process.pid, number)
