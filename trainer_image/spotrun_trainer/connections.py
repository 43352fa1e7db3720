"""The connections of a process group, to be cut when a collective would wait for ever.

gloo frees a blocked collective of its own accord only when its time-out is over, and neither
`abort` nor the group's end is quicker (torch 2.15). But once a connection is shut down, whoever
waits on it goes on with an error at once: every thread here, and the peer at its other end.
"""

import os
import select
import socket
import stat
import threading
from contextlib import suppress

from spotrun_trainer.lost import PeerLostError


class Connections:
    """The sockets that were opened between `begin` and `complete`, or since, until it is called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._before: dict[int, int] | None = None
        self._own: dict[int, int] | None = None
        self._to_store = set[int]()
        self._to_peers = dict[int, int]()
        self.are_cut = False

    def begin(self) -> None:
        """From now on what is opened belongs to the group."""
        with self._lock:
            self._before, self._own = _sockets(), None
            self.are_cut = False

    def met(self) -> None:
        """What was opened so far leads to the store, and what is opened next to peers."""
        with self._lock:
            self._to_store = set(self._opened().values())

    def complete(self) -> None:
        """The group has all its connections; what is opened later is somebody else's."""
        with self._lock:
            self._own = self._opened()
            self._to_peers = {
                descriptor: inode
                for descriptor, inode in self._own.items()
                if inode not in self._to_store and _is_connected(descriptor)
            }

    @property
    def are_left(self) -> bool:
        """Whether one that led to a peer does so no more, whoever has closed it."""
        with self._lock:
            return any(_is_closed(*each) for each in self._to_peers.items())

    def check(self) -> None:
        """Raise PeerLostError if they are cut."""
        if self.are_cut:
            raise PeerLostError("the connections of this world were cut")

    def cut(self) -> None:
        """Shut them down; may be called from any thread, and more than once."""
        with self._lock:
            self.are_cut = True
            for descriptor, inode in self._opened().items():
                with suppress(OSError):  # closed in the meantime, or never connected
                    _shut_down(descriptor, inode)

    def _opened(self) -> dict[int, int]:
        if self._own is not None or self._before is None:
            return self._own or {}
        before = self._before
        return {one: inode for one, inode in _sockets().items() if before.get(one) != inode}


def _sockets() -> dict[int, int]:
    """The inodes of this process's sockets, by descriptor: a number is used again, an inode not."""
    found = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - only the names are needed
        with suppress(OSError):
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                found[int(name)] = status.st_ino
    return found


def _is_connected(descriptor: int) -> bool:
    try:
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            connection.getpeername()
    except OSError:
        return False
    return True


def _is_closed(descriptor: int, inode: int) -> bool:
    try:
        if os.fstat(descriptor).st_ino != inode:
            return True
    except OSError:
        return True
    ended = select.poll()
    ended.register(descriptor, select.POLLRDHUP)
    return bool(ended.poll(0))


def _shut_down(descriptor: int, inode: int) -> None:
    if os.fstat(descriptor).st_ino != inode:
        return
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        # Not the listening one: gloo ends the process if that fails.
        connection.getpeername()
        connection.shutdown(socket.SHUT_RDWR)
