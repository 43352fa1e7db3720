"""An order to profile a few steps of a training, sent from a user to one process."""

import json
from dataclasses import dataclass
from typing import Any

from spotrun.wire.reading import as_object, object_of, shown, string, whole

MOST_PROFILED_STEPS = 200
"""A step of a small model has a megabyte of trace, and all are in memory until the last step."""
_ID_CHARACTERS = 64


@dataclass(frozen=True)
class Profile:
    """An order; a process follows it once, and only if the order came while the process ran."""

    asked: str  # the time of the order: its name in the log
    steps: int
    rank: int = 0  # of the worker; its first process records


def profile_content(profile: Profile) -> dict[str, Any]:
    """Return an order as it is written."""
    return {"asked": profile.asked, "steps": profile.steps, "rank": profile.rank}


def profile_text(profile: Profile) -> str:
    """Return an order in the form of an annotation."""
    return json.dumps(profile_content(profile))


def read_profile(value: object) -> Profile | None:
    """Read an order; raises ValueError."""
    if value is None:
        return None
    content = object_of(value, "profile")
    asked = string(content, "asked")
    if not asked.isprintable() or not 0 < len(asked) <= _ID_CHARACTERS:
        raise ValueError(f"asked is the time of an order, not {shown(asked)}")
    steps = whole(content, "steps", most=MOST_PROFILED_STEPS)
    return Profile(asked, max(steps, 1), whole(content, "rank", default=0))


def profile_of_text(text: str) -> Profile | None:
    """Read an annotation, which may have any content; None if it is no order."""
    try:
        return read_profile(as_object(text.encode(), "profile"))
    except ValueError:
        return None
