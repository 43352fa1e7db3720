"""PYTHONPATH loads the step counter into a script's processes without a changed line."""

import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path

COUNT_STEPS = "SPOTRUN_COUNT_STEPS"
SITE = Path(__file__).parent / "site"


def watch_processes(environment: MutableMapping[str, str]) -> None:
    """Let every Python that is started with this environment count its optimizer's steps."""
    if environment.get(COUNT_STEPS) == "0":
        return
    environment["PYTHONPATH"] = with_site(environment)


def show_fatal_errors(environment: MutableMapping[str, str]) -> None:
    """Let every Python print its stack when a signal such as SIGSEGV ends it.

    A value that the user has set is kept; an empty one turns this off.
    """
    environment.setdefault("PYTHONFAULTHANDLER", "1")


def with_site(environment: Mapping[str, str]) -> str:
    """Return PYTHONPATH with our folder before the others, once."""
    before = environment.get("PYTHONPATH", "")
    others = before.split(os.pathsep) if before else []  # an empty entry is the working directory
    return os.pathsep.join([str(SITE), *(part for part in others if part != str(SITE))])
