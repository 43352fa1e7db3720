"""Checked reading of JSON from the other side: each value is within limits, or refused."""

import json
import re
from collections.abc import Mapping
from typing import Any

MESSAGE_CHARACTERS = 1_024
MOST_STEPS = 2**53 - 1
"""The largest number that JSON readers in every language read exactly; status has no larger number
either."""

_CHECKPOINT = re.compile(r"step-(0|[1-9][0-9]{0,15})\.g(0|[1-9][0-9]{0,9})")


def as_object(body: bytes, what: str) -> Mapping[str, Any]:
    """Read a JSON object; raises ValueError."""
    return object_of(_json(body), what)


def object_of(value: object, what: str) -> Mapping[str, Any]:
    """Return a value that is an object; raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not a JSON object")  # noqa: TRY004 - a sender's mistake, not ours
    return value


def whole(
    content: Mapping[str, Any], key: str, *, most: int = MOST_STEPS, default: int | None = None
) -> int:
    """Return a whole number from 0 on; raises ValueError."""
    value = content.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{key} is a whole number from 0 to {most}, not {shown(value)}")
    return value


def number(content: Mapping[str, Any], key: str, most: float) -> float | None:
    """Return a number from 0 on, None if it is absent; raises ValueError."""
    value = content.get(key)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= most:  # this refuses NaN too
        raise ValueError(f"{key} is a number from 0 to {most:g}, not {shown(value)}")
    return float(value)


def string(content: Mapping[str, Any], key: str) -> str:
    """Return a text; raises ValueError."""
    value = content.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{key} is a text, not {shown(value)}")  # noqa: TRY004
    return value


def message(content: Mapping[str, Any]) -> str:
    """Return the message for people, without characters that cannot be shown."""
    value = content.get("message", "")
    return one_line(value) if isinstance(value, str) else ""


def one_line(text: str) -> str:
    """Return one line of limited length, without characters that disturb logs or terminals."""
    bounded = text[:MESSAGE_CHARACTERS]
    return "".join(char if char.isprintable() else " " for char in bounded).strip()


def checkpoint_name(value: object) -> str | None:
    """Return the name of a checkpoint, None if there is none; raises ValueError."""
    if value is None:
        return None
    if not isinstance(value, str) or not is_checkpoint_name(value):
        raise ValueError(f"a checkpoint is called step-N.gG, not {shown(value)}")
    return value


def is_checkpoint_name(text: str) -> bool:
    """Whether a checkpoint may have this name."""
    found = _CHECKPOINT.fullmatch(text)
    return found is not None and int(found[1]) <= MOST_STEPS


def shown(value: object) -> str:
    """Return a value for an error's message; a list or object, perhaps very deep, is left out."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return repr(str(value)[:40])


def _json(body: bytes) -> Any:  # noqa: ANN401 - it is JSON
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is not JSON: {error}") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")
