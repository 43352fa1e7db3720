"""Scripts in files, and how torchrun starts them."""

import sys
import textwrap
from multiprocessing.connection import wait
from pathlib import Path

from spotrun_trainer.agent.processes.warm.pool import Interpreters

IMPORT_SECONDS = 120.0  # of torch, on a machine that is busy with other tests


def command_of(folder: Path, script: str) -> list[str]:
    """The command that torchrun gives to a process of that script."""
    file = folder / "script.py"
    file.write_text(textwrap.dedent(script))
    return [sys.executable, "-u", str(file), "--size=2", "ä"]


def until_ready(interpreters: Interpreters) -> None:
    """Wait for interpreters to have imported; torchrun would give up on one that is slow."""
    for one in interpreters._waiting:
        if not one.is_ready:
            assert wait([one.control], IMPORT_SECONDS), "nothing to import"
