"""The connections of a process group, to be cut when a collective would wait for ever.

gloo ends a blocked collective by itself only when its time-out is over, and neither `abort` nor
the group's end is quicker (torch 2.15). But once a connection has ended, all that wait on it fail
at once: every thread here, and the peer at its other end.

The exception is a sender that has not written its whole message: gloo forgets it, and it keeps its
threads, its group and five descriptors until the time-out. So reading ends first, which makes gloo
release every waiter, and what a peer writes meanwhile is still received, until the peer has ended
reading as well.
"""

import errno
import os
import select
import socket
import stat
import threading
from collections.abc import Sequence
from contextlib import suppress

from spotrun_trainer.elastic.errors import PeerLostError

_HOLD_SECONDS = 0.5
"""Processes that know of a next world leave within milliseconds; others notice the end after
this."""


class Connections:
    """The sockets opened between `begin` and `complete`, or since `begin` before `complete`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._before: set[int] | None = None
        self._own: dict[int, int] | None = None
        self._to_store = set[int]()
        self._held = set[int]()
        self._to_peers = dict[int, int]()
        self._has_foreign_sockets = False
        self.are_cut = False

    def begin(self) -> None:
        """Count the sockets opened from now on as the group's."""
        with self._lock:
            self._before, self._own = set(_sockets().values()), None
            self.are_cut = False

    def met(self, store_port: int) -> None:
        """Keep only the opened sockets to the store; the next ones lead to peers.

        The others are not the group's: meeting may take minutes, in which the user's threads may
        connect to any address.
        """
        with self._lock:
            opened, before = self._opened(), self._before or set[int]()
            leads_to = {inode: _port_of_peer(one) for one, inode in opened.items()}
            self._to_store = {inode for inode, port in leads_to.items() if port == store_port}
            self._before = before | (leads_to.keys() - self._to_store)

    def complete(self, peers: int) -> None:
        """Close the list: the group has all its connections, `peers` of them to peers.

        Meanwhile a user's thread may have opened one, or a thread that still tries to connect in an
        earlier world. The sockets do not show which, so then their ends prove nothing.
        """
        with self._lock:
            self._own = self._opened()
            self._to_peers = {
                descriptor: inode
                for descriptor, inode in self._own.items()
                if inode not in self._to_store and _port_of_peer(descriptor) is not None
            }
            self._has_foreign_sockets = len(self._to_peers) > peers

    @property
    def are_left(self) -> bool:
        """Whether a connection to a peer has ended, at either end."""
        with self._lock:
            ends = any(_is_closed(*each) for each in self._to_peers.items())
            return ends and not self._has_foreign_sockets

    def check(self) -> None:
        """Raise PeerLostError if they are cut."""
        if self.are_cut:
            raise PeerLostError("the connections of this world were cut")

    def cut(self) -> None:
        """End all waits on them; may be called from any thread, and more than once."""
        held = list[int]()
        with self._lock:
            self.are_cut = True
            for descriptor, inode in self._opened().items():
                with suppress(OSError):  # closed in the meantime, or never connected
                    if self._to_peers.get(descriptor) != inode:
                        _shut_down(descriptor, inode)
                    elif inode not in self._held:
                        held.append(_stop_reading(descriptor, inode))
                        self._held.add(inode)
        if held:
            timer = threading.Timer(_HOLD_SECONDS, _close, [held])
            timer.daemon = True
            timer.start()

    def _opened(self) -> dict[int, int]:
        if self._own is not None or self._before is None:
            return self._own or {}
        before = self._before
        return {one: inode for one, inode in _sockets().items() if inode not in before}


def _sockets() -> dict[int, int]:
    """Return the inodes of this process's sockets by descriptor, whose numbers are reused."""
    found = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - only the names are needed
        with suppress(OSError):
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                found[int(name)] = status.st_ino
    return found


def _port_of_peer(descriptor: int) -> int | None:
    """Return the peer's port; 0 for a socket without ports; None if it is not connected."""
    try:
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            address = connection.getpeername()
    except OSError:
        return None
    return address[1] if isinstance(address, tuple) else 0


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
    with socket.socket(fileno=_duplicate(descriptor, inode)) as connection:
        # Not the listening one: gloo aborts the process if that fails.
        connection.getpeername()
        connection.shutdown(socket.SHUT_RDWR)


def _stop_reading(descriptor: int, inode: int) -> int:
    """End reading; return a descriptor that keeps the connection open."""
    with socket.socket(fileno=_duplicate(descriptor, inode)) as connection:
        connection.shutdown(socket.SHUT_RD)
        return connection.detach()


def _duplicate(descriptor: int, inode: int) -> int:
    duplicate = os.dup(descriptor)
    if os.fstat(duplicate).st_ino == inode:
        return duplicate
    os.close(duplicate)
    raise OSError(errno.EBADF, "it was closed, and its number is in use again")


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
