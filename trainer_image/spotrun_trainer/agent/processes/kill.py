"""Kill training processes at once."""

import os
import signal
from collections.abc import Container
from contextlib import suppress

from spotrun_trainer.agent.processes.sessions import leaders


def kill_sessions(but: Container[int] = ()) -> None:
    """Kill this worker's training processes with everything that they have started.

    `but` has the processes to spare, which do not train yet.

    torchrun would send SIGTERM and wait for 30 s, whatever --shutdown-timeout says (2.15:
    `LocalElasticAgent._stop_workers`).
    """
    for pid in leaders(but):
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
