"""A process that imports PyTorch and waits for its command, as its parent sees it.

Nothing here imports PyTorch: the first of these processes is begun before torchrun imports it.
"""

import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from spotrun_trainer.agent.processes.warm.interpreter import UNFIT, Ahead, Launch

VARIABLE = "SPOTRUN_BEGIN_AHEAD"
"""The variable that says what is imported ahead; 0: nothing."""
IMPORTED = ("torch", "torch.nn.parallel", "spotrun_trainer.run", "torch._dynamo")
"""Modules that nearly every training imports; optimizers and DistributedDataParallel import the
last."""
ROOM_BYTES = 0.8e9
"""Processes are ended if less free memory than this is there for each, and begun with twice as
much."""
ANSWER_SECONDS = 30.0
"""A process that does not answer for this long hangs: an import takes three CPU seconds."""
_PROGRAM = """
import sys
if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]
from spotrun_trainer.agent.processes.warm.interpreter import main
main(int(sys.argv[1]), *sys.argv[2:])  # the socket, what else, and the modules
"""
Process = subprocess.Popen[bytes]


@dataclass
class Waiting:
    """One such process."""

    process: Process
    control: socket.socket  # it sends a byte once all is imported, and one for its command
    noted_at: int = 0  # when its imports besides PyTorch were noted; 0: it has none
    is_ready: bool = False
    is_unfit: bool = False

    def looks_ready(self) -> bool:
        """Whether it has imported everything by now."""
        with suppress(OSError):  # it has sent nothing yet, or has ended
            self._hear(self.control.recv(1, socket.MSG_DONTWAIT))
        return self.is_ready

    def _hear(self, word: bytes) -> None:
        self.is_unfit = word == UNFIT
        self.is_ready = bool(word) and not self.is_unfit

    def takes(self, launch: Launch, outputs: Sequence[int]) -> bool:
        """Whether it is alive and has taken its command; if not, it is killed."""
        with self.control, suppress(OSError):
            self.control.settimeout(ANSWER_SECONDS)
            if not self.is_ready:
                self._hear(self.control.recv(1))
            if self.is_ready:
                socket.send_fds(self.control, [b"."], outputs)
                self.control.sendall(launch.to_bytes())
                self.control.shutdown(socket.SHUT_WR)
                if self.control.recv(1):
                    return True
        self.end()
        return False

    def end(self) -> None:
        """Kill it."""
        self.control.close()
        self.process.kill()
        self.process.wait()


def begin(
    ahead: Ahead,
    imported: Sequence[str],
    *,
    noted_at: int = 0,
    environment: Mapping[str, str] | None = None,
) -> Waiting:
    """Start one; `environment` is by default this process's."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [
                sys.executable,
                "-u",
                "-c",
                _PROGRAM,
                str(theirs.fileno()),
                ahead.to_text(),
                *imported,
            ],
            env=environment,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # as torchrun's processes are, which it ends by their sessions
        )
    return Waiting(process, ours, noted_at)


def has_room_for(number: int, room: float) -> bool:
    """Whether this many processes may be begun with this much free memory."""
    return room > 2 * number * ROOM_BYTES
