"""Manifests as plain JSON."""

from typing import Any

Manifest = dict[str, Any]


def plain(manifest: Manifest) -> Manifest:
    """Turn names and enums, which are strings that know more, into strings that encoders know."""
    return {str(key): _plain(value) for key, value in manifest.items()}


def _plain(value: object) -> object:
    match value:
        case dict():
            return plain(value)
        case list() | tuple():
            return [_plain(content) for content in value]
        case str():
            return str(value)
    return value
