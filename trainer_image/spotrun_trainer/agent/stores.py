"""TCPStores: one spare for a world that is still to come, and those that serve worlds.

A store serves one world, so that a plain `init_process_group` finds it fresh.
"""

import socket
from datetime import timedelta

from torch.distributed import TCPStore  # type: ignore[attr-defined]  # not in its __all__

from spotrun_trainer.process.addresses import split_address

_TIMEOUT = timedelta(seconds=300)


class Stores:
    """The stores that this agent hosts; to be used under the agent's lock."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._spare = self._open()
        self._serving: dict[int, TCPStore] = {}  # by the number of its world

    @property
    def spare_port(self) -> int:
        """The port of the spare store."""
        return int(self._spare.port)

    def hand_out(self, store: str, world_number: int) -> bool:
        """Keep the spare store for a world that was given it, and open another.

        Return True if there is another port to report.
        """
        if split_address(store) != (self._address, self.spare_port):
            return False
        self._serving[world_number] = self._spare
        self._spare = self._open()
        return True

    def entered(self, world_number: int) -> None:
        """Close the stores of older worlds: nobody of this worker uses them any more."""
        for older in [each for each in self._serving if each < world_number]:
            del self._serving[older]

    def close(self) -> None:
        """Close those that serve; the spare one ends with the process."""
        self._serving.clear()

    def _open(self) -> TCPStore:
        # By default a store listens at all addresses; only the pod's own is needed.
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.bind((self._address, 0))
        listening.listen()
        port = listening.getsockname()[1]
        return TCPStore(
            self._address,
            port,
            is_master=True,
            wait_for_workers=False,
            timeout=_TIMEOUT,
            master_listen_fd=listening.detach(),
        )
