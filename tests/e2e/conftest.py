"""One cluster for all tests of the whole: kind's own, or with CLUSTER=existing one that is there.

KEEP=1 leaves it up for the next run, or leaves the operator on a cluster that was there.
"""

import asyncio
import os
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.e2e import alone as training_alone
from tests.e2e.cluster import Cluster
from tests.e2e.existing.cluster import agree_on_existing
from tests.e2e.existing.preflight import Selection, after_keep
from tests.e2e.installation import install
from tests.e2e.kind.cluster import Kind, find_kind
from tests.e2e.kind.images import STOCK
from tests.e2e.kind.machine import SetupError
from tests.e2e.namespaces import Namespaces
from tests.e2e.operator_pods import kill_leader
from tests.e2e.site import Site, open_site

RESTLESS_SECONDS = 15
_CLUSTERS = ("kind", "existing")
_KIND_ONLY = "kind_only"
_FAILED = pytest.StashKey[bool]()


@dataclass(frozen=True)
class Installed:
    """A cluster with the operator in it."""

    cluster: Cluster
    operator: str  # the images
    trainer: str
    stock: str
    namespaces: Namespaces
    trial: str  # the first of them


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "short: what every change is tried with, `make e2e-short`",
        "calm: RESTLESS=1 does not kill operators meanwhile, for the test is about them",
        f"{_KIND_ONLY}(why): left out with CLUSTER=existing",
    ):
        config.addinivalue_line("markers", line)
    if _wanted_cluster() not in _CLUSTERS:
        raise pytest.UsageError(f"CLUSTER is {' or '.join(_CLUSTERS)}, not {_wanted_cluster()}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if _wanted_cluster() == "existing":
        for item in items:
            if why := _why_kind_only(item):
                item.add_marker(pytest.mark.skip(reason=f"only on kind: {why}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let fixtures know whether the test has failed."""
    report = yield
    item.stash[_FAILED] = report.failed or item.stash.get(_FAILED, False)
    return report


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def tell(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"e2e: {line}", file=sys.stderr, flush=True)

    with TemporaryDirectory() as folder:
        try:
            if _wanted_cluster() == "kind":
                found: Cluster = find_kind(tell)
            else:
                selection = _selection(request.session.items)
                with _at_the_terminal(capture):
                    found = agree_on_existing(os.environ, selection, Path(folder), tell)
        except SetupError as error:
            pytest.exit(f"e2e: {error}", returncode=2)
        yield found


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> Iterator[Installed]:
    namespaces = Namespaces(cluster)
    try:
        images = cluster.up()
        operator, trainer = images["spotrun-operator"], images["spotrun-trainer"]
        try:
            trial = namespaces.open("trial")  # are claims to be had? If not, no test need wait
            cluster.progress("installing the operator")
            install(cluster, operator, f"--set=trainerImage={trainer}")
            yield Installed(cluster, operator, trainer, images.get(STOCK, ""), namespaces, trial)
        finally:
            namespaces.until_gone()
    finally:
        if not os.environ.get("KEEP"):
            cluster.down()
        elif not isinstance(cluster, Kind):
            cluster.progress(after_keep())


@pytest.fixture(scope="session")
def alone(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """The weights after each of 400 steps of a training that nobody disturbs."""
    if isinstance(installed.cluster, Kind):
        return training_alone.here(tmp_path_factory.mktemp("alone"))
    return training_alone.in_reader(installed.cluster, installed.trial)


@pytest.fixture
async def site(installed: Installed, request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    name = request.node.name.removeprefix("test_").replace("_", "-")[:20].strip("-")
    is_calm = not os.environ.get("RESTLESS") or request.node.get_closest_marker("calm")
    where = (installed.namespaces, installed.trainer, name)
    async with open_site(*where, stock=installed.stock) as it:
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
            await kill_leader(site.cluster, site.kube)

    killer = asyncio.create_task(kill_in_turn())
    try:
        yield
    finally:
        killer.cancel()
        with suppress(asyncio.CancelledError):
            await killer


@contextmanager
def _at_the_terminal(capture: Any) -> Iterator[None]:
    """Let somebody be asked."""
    capture.suspend_global_capture(in_=True)
    try:
        yield
    finally:
        capture.resume_global_capture()


def _wanted_cluster() -> str:
    return os.environ.get("CLUSTER") or _CLUSTERS[0]


def _selection(items: Iterable[pytest.Item]) -> Selection:
    """Return what people are told of the tests before these begin."""
    left_out = defaultdict[str, list[str]](list)
    run = 0
    for item in items:
        if why := _why_kind_only(item):
            left_out[why].append(item.name)
        else:
            run += 1
    return Selection(run, {why: tuple(names) for why, names in left_out.items()})


def _why_kind_only(item: pytest.Item) -> str | None:
    marker = item.get_closest_marker(_KIND_ONLY)
    return marker and str(marker.args[0])
