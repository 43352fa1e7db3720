"""The TypeScript compiler, where somebody has installed one: it checks scripts."""

import shutil
import subprocess
from pathlib import Path

TSC = shutil.which("tsc")


def type_errors(project: Path) -> str:
    """Return what the compiler complains of."""
    assert TSC is not None
    return subprocess.run(
        [TSC, "-p", project], capture_output=True, text=True, check=False, timeout=60
    ).stdout
