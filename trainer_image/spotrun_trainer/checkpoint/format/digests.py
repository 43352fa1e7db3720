"""The hashes by which the data files of checkpoints are compared with what was written.

Durable checkpoints have SHA-256. Those in the workers' memory have CRC-32, which finds accidental
damage too, and takes less than a third of the time: they are written every few seconds, and read
while all processes wait. Neither is a signature.
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
        """Return the hash as it is written in manifests."""


class Crc32:
    """CRC-32 with the interface of hashlib."""

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

_POLYNOMIAL = 0xEDB88320  # of CRC-32; the highest bit is the lowest power
_ONE = 1 << 31


def crc32_of_both(first: int, second: int, second_bytes: int) -> int:
    """Return the CRC-32 of two consecutive stretches, from the CRC-32 of each.

    The first is multiplied by x^8 for each byte that follows, as zlib's crc32_combine does it.
    """
    shift, power = _ONE, _ONE >> 8
    while second_bytes:
        if second_bytes & 1:
            shift = _product(shift, power)
        power, second_bytes = _product(power, power), second_bytes >> 1
    return _product(shift, first) ^ second


def _product(one: int, other: int) -> int:
    """Multiply two polynomials over GF(2), modulo that of CRC-32."""
    result = 0
    for bit in range(31, -1, -1):
        if one >> bit & 1:
            result ^= other
        other = other >> 1 ^ (_POLYNOMIAL if other & 1 else 0)
    return result
