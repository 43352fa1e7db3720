"""The needs of the demo: Linux, torch, and the Kubernetes binaries, which are built if missing."""

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devcluster import binaries
from tests.integration.demo.helpers import Theatre


@pytest.fixture(scope="session")
def built() -> None:
    """The binaries that the first demo would build."""
    binaries.ensure(binaries.pin(), print)


@pytest.fixture
async def theatre(built: None) -> AsyncIterator[Theatre]:
    # Not tmp_path: sockets lie below, whose paths must be short.
    theatre = Theatre(Path(tempfile.mkdtemp(prefix="demo-")))
    yield theatre
    for demo in theatre.demos:
        if demo.process.returncode is None:
            demo.process.kill()  # its watchdog ends the rest
            await demo.process.wait()
    shutil.rmtree(theatre.folder, ignore_errors=True)
