"""One cluster for all tests of the whole; KEEP=1 leaves it up for the next run."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.installation import install
from tests.e2e.kind.cluster import Kind, find_kind
from tests.e2e.site import Site, open_site


@dataclass(frozen=True)
class Installed:
    """A cluster with the operator in it."""

    kind: Kind
    operator: str  # the images
    trainer: str


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


@pytest.fixture
async def site(installed: Installed, request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    name = request.node.name.removeprefix("test_").replace("_", "-")[:20].strip("-")
    async with open_site(installed.kind, installed.trainer, name) as it:
        yield it
