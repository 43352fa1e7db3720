"""Objects sent from process to process, their tensors staying where they are: in shared memory.

torch puts a tensor that is pickled into shared memory and leaves the file descriptor to
multiprocessing, which lets the receiver fetch it from a thread of the sender: five round trips for
each tensor, during which nothing else is loaded. Here descriptors go along with the message, and
what has been sent outlives the sender.
"""

import errno
import os
import socket
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from multiprocessing import context
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

# For what it teaches multiprocessing: to pickle tensors.
import torch.multiprocessing  # noqa: F401

COUNT_BYTES = 4
AT_ONCE = 253
"""Descriptors in a message: Linux takes no more (SCM_MAX_FD)."""

_received: ContextVar[list[int]] = ContextVar("received")


@dataclass(frozen=True)
class Passed:
    """Stands for a descriptor in a pickle, as multiprocessing's DupFd does."""

    number: int

    def detach(self) -> int:
        """The descriptor, which is the caller's from now on."""
        descriptors = _received.get()
        descriptor, descriptors[self.number] = descriptors[self.number], -1
        return descriptor


@dataclass
class PackedMessage:
    """A message that is ready to be sent, once."""

    data: memoryview = field(default_factory=lambda: memoryview(b""))
    descriptors: list[int] = field(default_factory=list)

    # What multiprocessing asks of a process that is being spawned, when it pickles descriptors.
    DupFd = Passed

    def duplicate_for_child(self, descriptor: int) -> int:
        self.descriptors.append(os.dup(descriptor))
        return len(self.descriptors) - 1


def pack(thing: object) -> PackedMessage:
    """Pickle, collecting descriptors the way processes that are being spawned get them."""
    message = PackedMessage()
    collector: Any = message
    context.set_spawning_popen(collector)
    try:
        message.data = ForkingPickler.dumps(thing)
    except BaseException:
        _close(message.descriptors)
        raise
    finally:
        context.set_spawning_popen(None)
    return message


def send(connection: Connection, message: PackedMessage) -> None:
    try:
        count = len(message.descriptors).to_bytes(COUNT_BYTES)
        connection.send_bytes(b"".join((count, message.data)))
        with _socket_of(connection) as sending:
            for at in range(0, len(message.descriptors), AT_ONCE):
                socket.send_fds(sending, [b"+"], message.descriptors[at : at + AT_ONCE])
    finally:
        _close(message.descriptors)


def receive(connection: Connection) -> object:
    data = memoryview(connection.recv_bytes())
    descriptors = _receive_descriptors(connection, int.from_bytes(data[:COUNT_BYTES]))
    reset = _received.set(descriptors)
    try:
        return ForkingPickler.loads(data[COUNT_BYTES:])
    finally:
        _received.reset(reset)
        _close(descriptor for descriptor in descriptors if descriptor >= 0)


def _receive_descriptors(connection: Connection, count: int) -> list[int]:
    descriptors: list[int] = []
    with _socket_of(connection) as receiving:
        while len(descriptors) < count:
            wanted = min(AT_ONCE, count - len(descriptors))
            _, arrived, _, _ = socket.recv_fds(receiving, 1, wanted)
            descriptors += arrived
            if len(arrived) < wanted:  # the kernel drops those that it finds no place for
                _close(descriptors)
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return descriptors


def _socket_of(connection: Connection) -> socket.socket:
    return socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM)


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
