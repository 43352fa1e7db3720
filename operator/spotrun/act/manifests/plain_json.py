"""Manifests as plain JSON."""

from typing import Any

import msgspec

Manifest = dict[str, Any]


def plain(manifest: Manifest) -> Manifest:
    """Return a copy in which names and enums are plain strings that every encoder knows."""
    # Twice through C is much quicker than a walk in Python, and a gang has hundreds of pods.
    copied: Manifest = msgspec.json.decode(msgspec.json.encode(manifest, enc_hook=_text))
    return copied


def _text(value: object) -> str:
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{type(value).__name__} is nothing that JSON has")
