"""Random numbers that follow from a seed and from their purpose.

They do not depend on the order in which they are drawn, nor on the release of Python.
"""

import json
from hashlib import sha256


def draw(seed: int, *purpose: str | int) -> float:
    """Return a number of at least 0 and below 1."""
    digest = sha256(json.dumps([seed, *purpose]).encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53
