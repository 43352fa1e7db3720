import os
import subprocess
import sys
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from tests.integration.trainer.helpers import SCRIPTS, Place, open_place
from tests.integration.trainer.traces import read_trace

_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let fixtures know whether the test has failed."""
    report = yield
    item.stash[_FAILED] = report.failed or item.stash.get(_FAILED, False)
    return report


@pytest.fixture
async def place(
    cluster: Cluster, crds: None, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Place]:
    async with open_place(cluster, tmp_path) as place:
        await place.add_nodes("a", "b")  # each for one worker
        yield place
        if request.node.stash[_FAILED]:
            await place.show()


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """The weights after each step of the loop with `Run`, trained by a process that is alone."""
    folder = tmp_path_factory.mktemp("alone")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, SCRIPTS / "run_loop.py", folder], env=environment, check=True)
    return {line["step"]: line["weights"] for line in read_trace(folder / "trace.jsonl")}
