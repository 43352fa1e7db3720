"""The hashes by which the data files of checkpoints are compared with what was written.

Checkpoints that last have SHA-256. Those in the workers' memory have CRC-32, which shows accidents
too, and takes less than a third of the time: they are written every few seconds, and read while
everybody waits. Neither is a signature.
"""

import hashlib
import zlib
from collections.abc import Callable, Mapping
from typing import Protocol

SHA256, CRC32 = "sha256", "crc32"


class Digest(Protocol):
    """A hash over the content so far."""

    def update(self, content: memoryview, /) -> object:
        """Go on with this content."""

    def hexdigest(self) -> str:
        """Return the hash as manifests have it."""


class Crc32:
    """CRC-32, as hashlib would have it."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, content: memoryview, /) -> None:
        """Go on with this content."""
        self._value = zlib.crc32(content, self._value)

    def hexdigest(self) -> str:
        """Return eight hexadecimal digits."""
        return f"{self._value:08x}"


DIGESTS: Mapping[str, Callable[[], Digest]] = {SHA256: hashlib.sha256, CRC32: Crc32}
"""The hashes by their names in manifests."""
DIGITS: Mapping[str, int] = {SHA256: 64, CRC32: 8}
