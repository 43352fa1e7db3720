"""Notices for all scripts: a node of the job is about to go away."""

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
    """Return the seconds that a node of this job has left, and why; None without a notice.

    A call checks one file, so a script may call it after each step. All processes of the job get
    the notice, because all of them start again in another world.
    """
    directory = os.environ.get("SPOTRUN_DIR")
    if not directory:
        return None
    try:
        answer = _file(directory).read()
    except (OSError, ValueError):
        return None  # the agent logs what is wrong with it
    if answer is None or answer.notice is None:
        return None
    return Notice(max(answer.notice.at - time.time(), 0.0), answer.notice.reason)


@cache
def _file(directory: str) -> WorldFile:
    return WorldFile(directory)
