"""A training process's side: it sends a copy of its part to a neighbour, and reads parts of others.

All errors are OSErrors, like those of any place for checkpoints.
"""

import errno
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spotrun_trainer.checkpoint.format.manifest import sha256_of
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.storage import SMALL_BYTES
from spotrun_trainer.checkpoint.tiers.channel import Channel, ChannelError
from spotrun_trainer.process.addresses import split_address

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 60.0
"""An agent serves a limited number of processes at a time; the others wait for their turn."""
AHEAD_BYTES = 64 << 20
"""The most bytes in one request for a file that is read in order."""


@contextmanager
def connected(address: str, secret: str) -> Iterator[Channel]:
    """Connect to the agent that serves another worker's folder."""
    if not address:  # that worker's log says why
        raise OSError(errno.EHOSTUNREACH, "that worker serves no local tier")
    try:
        with socket.create_connection(split_address(address), CONNECT_SECONDS) as connection:
            yield Channel(connection, [secret], ANSWER_SECONDS, is_server=False)
    except (ChannelError, ConnectionError, TimeoutError, socket.gaierror) as error:
        raise OSError(errno.EHOSTUNREACH, f"cannot be reached: {error}", address) from error


@dataclass(frozen=True)
class Copy:
    """A part to send."""

    name: Name
    rank: int
    data: Path
    manifest: bytes


def put(channel: Channel, address: str, copy: Copy) -> None:
    """Send a copy of a part; returns once it is whole in the other worker's folder."""
    manifest = copy.manifest
    with copy.data.open("rb") as file:
        request = {"what": "put", "name": str(copy.name), "rank": copy.rank}
        size = os.fstat(file.fileno()).st_size
        described = {"data": size, "manifest": len(manifest), "sha256": sha256_of(manifest)}
        channel.send({**request, **described})
        _accepted(channel, address)
        channel.send_file(file.fileno(), 0, size)
        channel.write(manifest)
        _accepted(channel, address)


def read_manifest_of(address: str, secret: str, name: Name, rank: int) -> bytes:
    """Return the manifest of a part that another worker has."""
    with connected(address, secret) as channel:
        channel.send({"what": "manifest", "name": str(name), "rank": rank})
        size = int(_accepted(channel, address)["bytes"])
        if not 0 <= size <= SMALL_BYTES:
            raise OSError(errno.EFBIG, f"has {size} bytes", str(name))
        return channel.read(size)


class RemoteFile:
    """The data of a part in another worker's folder; reads in order are streamed.

    `reads` are the ranges that will be read: only these are requested ahead.
    """

    def __init__(
        self,
        channel: Channel,
        address: str,
        name: Name,
        rank: int,
        reads: Sequence[tuple[int, int]] = (),
    ) -> None:
        self._channel = channel
        self._address = address
        self._reads = reads
        self._request = {"what": "data", "name": str(name), "rank": rank}
        self._at = self._left = 0
        self.size = self._ask(0, 0)

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill the target from that byte on; raises ValueError if the file is too short."""
        if offset + len(target) > self.size:
            raise ValueError("it ended early")
        if offset != self._at:
            self._skip()
        while target:
            if not self._left:
                ahead = self._ahead(offset) if offset == self._at else 0
                self._ask(offset, max(len(target), ahead))
            if not self._left:  # the file was replaced by a shorter one
                raise ValueError("it ended early")
            piece = target[: self._left]
            self._channel.read_into(piece)
            target, offset = target[len(piece) :], offset + len(piece)
            self._at, self._left = offset, self._left - len(piece)

    def _ahead(self, offset: int) -> int:
        stops = [stop for start, stop in self._reads if start <= offset < stop]
        return min(AHEAD_BYTES, max(stops, default=self.size) - offset)

    def _ask(self, start: int, count: int) -> int:
        self._channel.send({**self._request, "start": start, "count": count})
        size = int(_accepted(self._channel, self._address)["bytes"])
        self._at, self._left = start, min(count, max(size - start, 0))
        return size

    def _skip(self) -> None:
        """Read and drop requested bytes that are not needed; a reader seldom leaves the order."""
        buffer = memoryview(bytearray(min(self._left, 1 << 20)))
        while self._left:
            piece = buffer[: self._left]
            self._channel.read_into(piece)
            self._left -= len(piece)
        self._at = -1


@contextmanager
def opened_of(
    address: str, secret: str, name: Name, rank: int, reads: Sequence[tuple[int, int]] = ()
) -> Iterator[RemoteFile]:
    """Open the data of a part that another worker has."""
    with connected(address, secret) as channel:
        yield RemoteFile(channel, address, name, rank, reads)


def _accepted(channel: Channel, address: str) -> dict[str, Any]:
    answer = channel.receive()
    if "error" in answer:
        raise OSError(int(answer.get("errno") or errno.EIO), f"{answer['error']}", address)
    return answer
