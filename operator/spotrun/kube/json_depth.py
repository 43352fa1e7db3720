"""JSON that is nested deeper than a decoder goes.

The API server accepts objects of 10,000 levels if their schema allows unknown fields. Lists and
watches contain the objects of all users: one that is too deep must not prevent the others from
being read.
"""

import re
from typing import Any

import msgspec

MOST_LEVELS = 500
"""Real objects have fewer levels, and decoders fail at more."""

_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]')


def decode(decoder: msgspec.json.Decoder[Any], data: bytes | msgspec.Raw) -> Any:  # noqa: ANN401 - what the decoder makes
    """Decode; only the upper levels of JSON that is nested too deep are kept."""
    try:
        return decoder.decode(data)
    except RecursionError:
        return decoder.decode(shallow(bytes(data)))


def shallow(data: bytes) -> bytes:
    """Return the same JSON with null in place of everything deeper."""
    kept: list[bytes] = []
    start = level = 0
    for token in _TOKENS.finditer(data):
        mark = token[0]
        if mark in (b"{", b"["):
            if level == MOST_LEVELS:
                kept += (data[start : token.start()], b"null")
            level += 1
        elif mark in (b"}", b"]"):
            level -= 1
            if level == MOST_LEVELS:
                start = token.end()
    return b"".join((*kept, data[start:]))
