"""Notices for any script: a node of its job is about to go away."""

import os
import time
from functools import cache
from typing import NamedTuple

from spotrun_trainer.process.ipc_files import WorldFile


class Notice(NamedTuple):
    """The time that is left to save, and what happens then."""

    seconds_left: float
    reason: str


def notice() -> Notice | None:
    """Return the seconds that are left of a node of this job, and why; None without a notice.

    It costs one look at a file, so a script may ask after each step. All processes of the job are
    told, for all of them start again in another world.
    """
    directory = os.environ.get("SPOTRUN_DIR")
    if not directory:
        return None
    try:
        answer = _file(directory).read()
    except (OSError, ValueError):
        return None  # the agent says what is wrong with it
    if answer is None or answer.notice is None:
        return None
    return Notice(max(answer.notice.at - time.time(), 0.0), answer.notice.reason)


@cache
def _file(directory: str) -> WorldFile:
    return WorldFile(directory)
