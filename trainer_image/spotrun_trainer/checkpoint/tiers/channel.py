"""Messages between workers about their local tiers, signed with the secret of a world.

Both sides begin with a random number. Each message is JSON, and its signature covers both numbers,
the side that speaks, the count of its messages and the content: so a message without the secret,
from another connection, or repeated, is refused. Content of files follows a message unsigned. It is
compared with signed checksums (CRC-32), which find accidental changes, but not deliberate ones by
somebody on the network path; nothing is encrypted. The same holds for everything that the processes
of a world send each other.
"""

import hmac
import json
import os
import secrets
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

MESSAGE_BYTES = 16_384
_NONCE_BYTES = 16
_LENGTH = struct.Struct("!I")
_COUNT = struct.Struct("!Q")
_SIGNATURE_BYTES = 32


class ChannelError(OSError):
    """The other side is not a worker of this world, or uses another protocol."""


class Channel:
    """One side of a connection."""

    def __init__(
        self,
        connection: socket.socket,
        world_secrets: Sequence[str],
        seconds: float,
        *,
        is_server: bool,
    ) -> None:
        """Exchange the random numbers; of several secrets the first message decides which is used.

        `seconds` is the longest pause of the other side. A client has the same time for its first
        message: until then it may be a stranger that keeps workers waiting for a connection.
        """
        if not all(world_secrets):
            raise ChannelError("this worker has no secret to sign with, because it is in no world")
        self.connection = connection
        self._wait_in_the_kernel(seconds)
        self._keys = [one.encode() for one in world_secrets]
        self._sides = (b"server", b"client") if is_server else (b"client", b"server")
        self._sent = self._received = 0
        self._until = time.monotonic() + seconds if is_server else None
        own = secrets.token_bytes(_NONCE_BYTES)
        self.write(own)
        other = self.read(_NONCE_BYTES)
        self._nonces = own + other if is_server else other + own

    def send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        body = json.dumps(message, separators=(",", ":")).encode()
        signature = self._signature(self._keys[0], self._sides[0], self._sent, body)
        self._sent += 1
        self.write(_LENGTH.pack(len(body)) + body + signature)

    def write(self, content: bytes) -> None:
        """Send bytes as they are."""
        with _in_time("takes"):
            self.connection.sendall(content)

    def receive(self) -> dict[str, Any]:
        """Return the next message; raises ChannelError if it is not from the other side."""
        (length,) = _LENGTH.unpack(self.read(_LENGTH.size))
        if length > MESSAGE_BYTES:
            raise ChannelError(f"a message has at most {MESSAGE_BYTES} bytes, not {length}")
        body, signature = self.read(length), self.read(_SIGNATURE_BYTES)
        for key in self._keys:
            expected = self._signature(key, self._sides[1], self._received, body)
            if hmac.compare_digest(signature, expected):
                self._keys = [key]
                break
        else:
            raise ChannelError(
                "the signature of a message was not made with the secret of this world"
            )
        self._received, self._until = self._received + 1, None
        message = json.loads(body)
        if not isinstance(message, dict):
            raise ChannelError("a message must be a JSON object")
        return message

    def read(self, size: int) -> bytes:
        """Return `size` bytes."""
        content = bytearray(size)
        self.read_into(memoryview(content))
        return bytes(content)

    def read_into(self, target: memoryview) -> None:
        """Fill the target; raises ChannelError if the connection ends too early."""
        while target:
            with _in_time("says"):
                count = self.connection.recv_into(target, 0, socket.MSG_WAITALL)
            if not count:
                raise ChannelError("the other side has closed the connection")
            target = target[count:]
            if target and self._until is not None and time.monotonic() > self._until:
                raise ChannelError("the other side has not identified itself in time")

    def send_file(self, descriptor: int, start: int, count: int) -> None:
        """Send a range of a file."""
        while count:
            with _in_time("takes"):
                sent = os.sendfile(self.connection.fileno(), descriptor, start, count)
            if not sent:
                raise ChannelError("a file became shorter while it was sent")
            start, count = start + sent, count - sent

    def _wait_in_the_kernel(self, seconds: float) -> None:
        """Let one call transfer all bytes: with Python's time-outs each piece needs a call."""
        self.connection.setblocking(True)
        pause = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.connection.setsockopt(socket.SOL_SOCKET, option, pause)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _signature(self, key: bytes, side: bytes, count: int, body: bytes) -> bytes:
        return hmac.digest(key, self._nonces + side + _COUNT.pack(count) + body, "sha256")


@contextmanager
def _in_time(does: str) -> Iterator[None]:
    """Report a time-out of the kernel as a ChannelError."""
    try:
        yield
    except BlockingIOError as error:
        raise ChannelError(f"the other side {does} nothing any more") from error
