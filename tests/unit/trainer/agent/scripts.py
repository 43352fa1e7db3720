"""A script in a file, and how torchrun starts it."""

import sys
import textwrap
from pathlib import Path


def command_of(folder: Path, script: str) -> list[str]:
    """The command that torchrun gives to a process of that script."""
    file = folder / "script.py"
    file.write_text(textwrap.dedent(script))
    return [sys.executable, "-u", str(file), "--size=2", "ä"]
