"""`kubectl tjob` as it is typed, against a cluster."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass
from pathlib import Path

from devcluster.cluster import Cluster

PROGRAMS = Path(sys.executable).parent


@dataclass(frozen=True)
class Typed:
    """The answer to a command line."""

    code: int | None
    out: str
    err: str


async def begun(access: Cluster | Path, *words: str) -> Process:
    """Start a command whose end is somebody else's; a path is that of a kubeconfig."""
    kubeconfig = access if isinstance(access, Path) else access.kubeconfig
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    return await asyncio.create_subprocess_exec(
        PROGRAMS / "kubectl-tjob", *words, env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )


async def typed(access: Cluster | Path, *words: str) -> Typed:
    """Run a command to its end; none may show a traceback."""
    return await ended(await begun(access, *words))


async def ended(process: Process) -> Typed:
    """Wait for the end of a command."""
    out, err = await process.communicate()
    assert "Traceback" not in err.decode(), err.decode()
    return Typed(process.returncode, out.decode(), err.decode())
