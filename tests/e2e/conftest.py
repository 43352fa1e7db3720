"""One cluster for all tests of the whole; KEEP=1 leaves it up for the next run."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass

import pytest

from tests.e2e.installation import install
from tests.e2e.kind.cluster import Kind, find_kind
from tests.e2e.kind.machine import ROOT
from tests.e2e.operator_pods import kill_leader
from tests.e2e.site import Site, open_site
from tests.integration.trainer.traces import read_trace

RESTLESS_SECONDS = 15
_FAILED = pytest.StashKey[bool]()


@dataclass(frozen=True)
class Installed:
    """A cluster with the operator in it."""

    kind: Kind
    operator: str  # the images
    trainer: str


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "short: what every change is tried with, `make e2e-short`",
        "calm: RESTLESS=1 does not kill operators meanwhile, for the test is about them",
    ):
        config.addinivalue_line("markers", line)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let fixtures know whether the test has failed."""
    report = yield
    item.stash[_FAILED] = report.failed or item.stash.get(_FAILED, False)
    return report


@pytest.fixture(scope="session")
def installed(request: pytest.FixtureRequest) -> Iterator[Installed]:
    terminal = request.config.pluginmanager.getplugin("capturemanager")

    def tell(line: str) -> None:
        with terminal.global_and_fixture_disabled():
            print(f"e2e: {line}", file=sys.stderr, flush=True)

    kind = find_kind(tell)
    try:
        images = kind.up()
        tell("installing the operator")
        install(kind, images["spotrun-operator"])
        yield Installed(kind, images["spotrun-operator"], images["spotrun-trainer"])
    finally:
        if not os.environ.get("KEEP"):
            kind.down()


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """The weights after each of 400 steps of a training that nobody disturbs, on this machine."""
    folder = tmp_path_factory.mktemp("alone")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    script = ROOT / "tests/scripts/run_loop.py"
    subprocess.run([sys.executable, script, folder], env=environment, check=True)
    return {line["step"]: line["weights"] for line in read_trace(folder / "trace.jsonl")}


@pytest.fixture
async def site(installed: Installed, request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    name = request.node.name.removeprefix("test_").replace("_", "-")[:20].strip("-")
    is_calm = not os.environ.get("RESTLESS") or request.node.get_closest_marker("calm")
    async with open_site(installed.kind, installed.trainer, name) as it:
        async with nullcontext() if is_calm else _restless(it):
            yield it
        if request.node.stash[_FAILED]:
            await it.show()


@asynccontextmanager
async def _restless(site: Site) -> AsyncIterator[None]:
    """Kill the operator that leads, and then the one that follows it, again and again."""

    async def kill_in_turn() -> None:
        while True:
            await asyncio.sleep(RESTLESS_SECONDS)
            await kill_leader(site.kind, site.kube)

    killer = asyncio.create_task(kill_in_turn())
    try:
        yield
    finally:
        killer.cancel()
        with suppress(asyncio.CancelledError):
            await killer
