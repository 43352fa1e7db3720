"""Runs a bench to its end, as a test does: for what it prints, not for how fast it was."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def figures_of(name: str, *arguments: str, timeout_seconds: float) -> list[dict[str, Any]]:
    """Run a bench and return its figures, line by line."""
    bench = subprocess.run(
        [sys.executable, f"bench/{name}.py", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "default"},
    )
    assert bench.returncode == 0, bench.stderr[-4000:]
    lines = bench.stdout.splitlines()
    # Torch 2.10's own gloo says there who is connected.
    return [json.loads(line) for line in lines if not line.startswith("[Gloo]")]
