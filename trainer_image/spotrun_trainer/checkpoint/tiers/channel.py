"""Messages between workers about their local tiers, signed with the secret of a world.

Both sides begin with a random number. Each message is JSON, and its signature covers both numbers,
the side that speaks, the count of its messages and the content: so a message of somebody without
the secret, of another connection, or one that is repeated, is refused. Content of files follows a
message as it is. It is compared with check sums (CRC-32) that came signed, which find an accident
and not somebody on the path who changes it on purpose; nothing is encrypted. So it is with all that
the processes of a world send each other.
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
    """The other side is no worker of this world, or speaks another language."""


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
        """Exchange the random numbers; of several secrets the first message decides which it is.

        `seconds` is the longest pause of the other side. So long a client has for its first message
        as well: until then it may be anybody, who keeps workers waiting for a connection.
        """
        if not all(world_secrets):
            raise ChannelError("there is no secret to sign with, outside of a world")
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
        """Return the next message; raises ChannelError if it is not the other side's."""
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
            raise ChannelError("the signature of a message is not of this world")
        self._received, self._until = self._received + 1, None
        message = json.loads(body)
        if not isinstance(message, dict):
            raise ChannelError("a message is a JSON object")
        return message

    def read(self, size: int) -> bytes:
        """Return so many bytes."""
        content = bytearray(size)
        self.read_into(memoryview(content))
        return bytes(content)

    def read_into(self, target: memoryview) -> None:
        """Fill the target; raises ChannelError if the connection ends before."""
        while target:
            with _in_time("says"):
                count = self.connection.recv_into(target, 0, socket.MSG_WAITALL)
            if not count:
                raise ChannelError("the other side has ended the connection")
            target = target[count:]
            if target and self._until is not None and time.monotonic() > self._until:
                raise ChannelError("the other side has not said in time who it is")

    def send_file(self, descriptor: int, start: int, count: int) -> None:
        """Send a range of a file."""
        while count:
            with _in_time("takes"):
                sent = os.sendfile(self.connection.fileno(), descriptor, start, count)
            if not sent:
                raise ChannelError("a file became shorter while it was sent")
            start, count = start + sent, count - sent

    def _wait_in_the_kernel(self, seconds: float) -> None:
        """Let a call take all bytes at once: Python's time-outs ask before each piece."""
        self.connection.setblocking(True)
        pause = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.connection.setsockopt(socket.SOL_SOCKET, option, pause)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _signature(self, key: bytes, side: bytes, count: int, body: bytes) -> bytes:
        return hmac.digest(key, self._nonces + side + _COUNT.pack(count) + body, "sha256")


@contextmanager
def _in_time(does: str) -> Iterator[None]:
    """Say what a pause of the kernel's time-out means."""
    try:
        yield
    except BlockingIOError as error:
        raise ChannelError(f"the other side {does} nothing any more") from error
