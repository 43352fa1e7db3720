"""Manifests as plain JSON."""

from typing import Any

Manifest = dict[str, Any]


def plain(value: Any) -> Any:  # noqa: ANN401 - JSON in, JSON out
    """Turn names and enums, which are strings that know more, into strings that encoders know."""
    match value:
        case dict():
            return {str(key): plain(content) for key, content in value.items()}
        case list() | tuple():
            return [plain(content) for content in value]
        case str():
            return str(value)
    return value
