"""Objects sent between processes, with their tensors in shared memory.

torch puts a tensor that is pickled into shared memory and leaves the file descriptor to
multiprocessing, which lets the receiver fetch it from a thread of the sender: five round trips for
each tensor, during which nothing else is loaded. Here descriptors travel with the message, and a
message outlives its sender.
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

# Imported for its side effect: multiprocessing can then pickle tensors.
import torch.multiprocessing  # noqa: F401

COUNT_BYTES = 4
AT_ONCE = 253
"""Descriptors in a message: Linux accepts no more (SCM_MAX_FD)."""

_received: ContextVar[list[int]] = ContextVar("received")


@dataclass(frozen=True)
class Passed:
    """A stand-in for a descriptor in a pickle, like multiprocessing's DupFd."""

    number: int

    def detach(self) -> int:
        """Return the descriptor, which the caller owns from now on."""
        descriptors = _received.get()
        descriptor, descriptors[self.number] = descriptors[self.number], -1
        return descriptor


@dataclass
class PackedMessage:
    """A message that is ready to be sent, once."""

    data: memoryview = field(default_factory=lambda: memoryview(b""))
    descriptors: list[int] = field(default_factory=list)

    # multiprocessing uses these of a process that is being spawned when it pickles descriptors.
    DupFd = Passed

    def duplicate_for_child(self, descriptor: int) -> int:
        self.descriptors.append(os.dup(descriptor))
        return len(self.descriptors) - 1


def pack(thing: object) -> PackedMessage:
    """Pickle an object, and collect descriptors as for a process that is being spawned."""
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
        count = len(message.descriptors).to_bytes(COUNT_BYTES, "big")
        connection.send_bytes(b"".join((count, message.data)))
        with _socket_of(connection) as sending:
            for at in range(0, len(message.descriptors), AT_ONCE):
                socket.send_fds(sending, [b"+"], message.descriptors[at : at + AT_ONCE])
    finally:
        _close(message.descriptors)


def receive(connection: Connection) -> object:
    data = memoryview(connection.recv_bytes())
    descriptors = _receive_descriptors(connection, int.from_bytes(data[:COUNT_BYTES], "big"))
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
            if len(arrived) < wanted:  # the kernel drops those beyond the limit of open files
                _close(descriptors)
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return descriptors


def _socket_of(connection: Connection) -> socket.socket:
    return socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM)


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
