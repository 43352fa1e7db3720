"""A stage of a training, which the operator sends to a worker with its world."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spotrun.wire.reading import object_of, string, whole

Param = str | int | float | bool


@dataclass(frozen=True)
class Stage:
    """A stage: its name and place, and the values that its processes get."""

    name: str
    index: int = 0
    is_last: bool = True
    until_step: int | None = None
    args: tuple[str, ...] = ()  # appended to those of the template
    params: Mapping[str, Param] = field(default_factory=dict, hash=False)


def stage_content(stage: Stage | None) -> dict[str, Any] | None:
    """Return a stage as it is written."""
    if stage is None:
        return None
    return {
        "name": stage.name,
        "index": stage.index,
        "isLast": stage.is_last,
        "untilStep": stage.until_step,
        "args": list(stage.args),
        "params": dict(stage.params),
    }


def read_stage(value: object) -> Stage | None:
    """Read a stage; raises ValueError."""
    if value is None:
        return None
    content = object_of(value, "stage")
    args, params = content.get("args", []), object_of(content.get("params", {}), "params")
    if not isinstance(args, list) or not all(isinstance(one, str) for one in args):
        raise ValueError("args of a stage is a list of texts")
    if not all(isinstance(one, str | int | float | bool) for one in params.values()):
        raise ValueError("params of a stage are texts, numbers and truth values by name")
    until = content.get("untilStep")
    return Stage(
        name=string(content, "name"),
        index=whole(content, "index"),
        is_last=content.get("isLast") is not False,
        until_step=None if until is None else whole(content, "untilStep"),
        args=tuple(args),
        params=dict(params),
    )


def read_param(text: str) -> Param:
    """Return the number or boolean that a text contains; otherwise the text."""
    try:
        read = json.loads(text, parse_constant=lambda _: text)
    except ValueError:
        return text
    # 1e999 would be an infinity, which JSON does not have.
    is_number = isinstance(read, int | float) and abs(read) != math.inf
    return read if is_number else text
