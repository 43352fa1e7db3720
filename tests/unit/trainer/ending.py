"""Scripts in a process of their own, that ends as they do elsewhere: with the interpreter.

What multiprocessing starts ends without that.
"""

import os
import subprocess
import sys
from collections.abc import Mapping

PATIENCE_SECONDS = 120.0  # most of it imports torch

LINGER = """
import sys, time


class Lingers:
    def __del__(self, sleep=time.sleep):
        sleep(1.0)


sys.modules["lingers"] = Lingers()
"""
"""A module whose finalizer sleeps: the interpreter then ends slowly, and threads run meanwhile."""


def run_script(
    script: str, *arguments: object, env: Mapping[str, str] = {}
) -> subprocess.CompletedProcess[str]:
    """Run a script to its end."""
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        env={**os.environ, **env},
    )
