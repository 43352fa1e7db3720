"""TCPStores: one spare for a world that is still to come, and those that serve worlds.

A store serves one world, so that a plain `init_process_group` finds it fresh.
"""

import socket
from datetime import timedelta

from torch.distributed import TCPStore  # type: ignore[attr-defined]  # not in its __all__

from spotrun_trainer.process.addresses import split_address

_TIMEOUT = timedelta(seconds=300)


class Stores:
    """The stores that this agent hosts; it must be used under the agent's lock."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._spare = self._open()
        self._spare_before: TCPStore | None = None  # the operator may not know of the newer one yet
        self._newest: int | None = None  # the newest world of any answer; None before the first
        self._serving: dict[int, TCPStore] = {}  # by the number of its world

    @property
    def spare_port(self) -> int:
        """The port of the spare store."""
        return int(self._spare.port)

    def hear_of(self, world_number: int, store: str | None) -> None:
        """Follow an answer of the operator; `store` is that of the world, wherever it is hosted.

        A world that this agent missed may have been given the spare store, and others may have used
        it: the operator never gives it again, and waits for another one.
        """
        missed = self._newest is not None and world_number > self._newest + 1
        if not self._hand_out(store, world_number) and missed:
            self._spare_before, self._spare = self._spare, self._open()
        self._newest = max(world_number, self._newest or 0)

    def entered(self, world_number: int) -> None:
        """Close the stores of older worlds: no process of this worker uses them any more."""
        for older in [each for each in self._serving if each < world_number]:
            del self._serving[older]

    def close(self) -> None:
        """Close those that serve; the spare one ends with the process."""
        self._serving.clear()

    def _hand_out(self, store: str | None, world_number: int) -> bool:
        """Keep a spare store for a world that was given it; return whether it was one of ours."""
        asked = split_address(store) if store is not None else None
        if asked == (self._address, self._spare.port):
            self._serving[world_number], self._spare = self._spare, self._open()
            self._spare_before = None
            return True
        before = self._spare_before
        if before is not None and asked == (self._address, before.port):
            self._serving[world_number], self._spare_before = before, None
            return True
        return False

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
