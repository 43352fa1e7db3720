"""The last words of a worker: the line that it leaves in its termination log."""

import json
from dataclasses import dataclass

from spotrun.wire.reading import (
    MOST_STEPS,
    as_object,
    checkpoint_name,
    is_checkpoint_name,
    message,
    one_line,
    whole,
)
from spotrun.wire.report import MOST_EXIT_CODE
from spotrun.wire.text_enum import TextEnum

LAST_WORDS_BYTES = 3_500  # the kubelet cuts termination messages at 4,096 bytes


class Ending(TextEnum):
    """The reason that a worker gives for its end."""

    COMPLETED = "completed"
    DEPARTED = "departed"
    PREEMPTED = "preempted"
    FAILED = "failed"
    UNUSABLE = "unusable"  # it can never train: the image lacks something necessary


@dataclass(frozen=True)
class LastWords:
    """The line that a worker leaves in its termination log."""

    reason: Ending
    step: int | None = None
    checkpoint: str | None = None
    exit_code: int | None = None
    message: str = ""


def write_last_words(words: LastWords) -> str:
    """Write one line that fits, so that the kubelet never cuts off the reason."""
    code, step, name = words.exit_code, words.step, words.checkpoint
    is_code = code is not None and 0 <= code <= MOST_EXIT_CODE
    content = {
        "reason": words.reason.value,
        "step": step if step is not None and 0 <= step <= MOST_STEPS else None,
        "checkpoint": name if name is not None and is_checkpoint_name(name) else None,
        "exitCode": code if is_code else None,
    }
    known = {key: value for key, value in content.items() if value is not None}
    message = one_line(words.message)
    line = json.dumps(known | ({"message": message} if message else {}))
    while len(line) > LAST_WORDS_BYTES:  # characters outside ASCII take up to 12 bytes
        message = message[: len(message) // 2]
        line = json.dumps({**known, "message": message})
    return line


def read_last_words(text: str) -> LastWords | None:
    """Return the last such line; None if a worker ended without one."""
    for line in reversed(text[-4096:].splitlines()):
        try:
            content = as_object(line.encode(), "last words")
            return LastWords(
                reason=Ending(content.get("reason", "")),
                step=whole(content, "step") if "step" in content else None,
                checkpoint=checkpoint_name(content.get("checkpoint")),
                exit_code=whole(content, "exitCode", most=MOST_EXIT_CODE)
                if "exitCode" in content
                else None,
                message=message(content),
            )
        except ValueError:
            continue
    return None
