"""The stage that this training's processes are in: the agent sets it in their environment."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

ENV = "SPOTRUN_STAGE"
"""A JSON object: name, index, and untilStep where the stage ends at a step."""


@dataclass(frozen=True)
class Stage:
    """A stage of `spec.stages`: its name, its place from 0 on, and its last step, if it has one."""

    name: str
    index: int = 0
    until_step: int | None = None


def stage_of(env: Mapping[str, str] = os.environ) -> Stage | None:
    """Return the stage of this process; None where the training has no stages."""
    text = env.get(ENV)
    if not text:
        return None
    try:
        content = json.loads(text)
        until = content.get("untilStep")
        until_step = None if until is None else int(until)
        return Stage(str(content["name"]), int(content.get("index", 0)), until_step)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f'{ENV} must be a JSON object such as {{"name": "warmup", "index": 0, '
            f'"untilStep": 100}}, not {text[:80]!r}'
        ) from error
