"""The name that a world's number had in messages of earlier releases: it is written and read too.

Agents are in users' images. While an operator is replaced, and in a job that runs longer, the other
side may know only the old name.
"""

from collections.abc import Mapping
from typing import Any

from spotrun.wire.reading import whole

_OLD_NAME = "generation"


def world_number(content: Mapping[str, Any], key: str, *, default: int | None = None) -> int:
    """Return the number of a world, under either name; raises ValueError."""
    is_old = key not in content and _OLD_NAME in content
    return whole(content, _OLD_NAME if is_old else key, default=default)


def with_old_name(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the content with a world's number under both names."""
    return {**content, _OLD_NAME: content[key]}
