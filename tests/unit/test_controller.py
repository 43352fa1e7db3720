"""What a replica says of its own health."""

import asyncio
import re
from typing import Any, NoReturn, cast

import pytest

from spotrun.controller import Controller, Settings

HOUR = 3600.0


@pytest.fixture
def controller() -> Controller:
    settings = Settings(namespace="home", advertise="a:1", address="a:1")
    return Controller(settings, cast("Any", None), cast("Any", None))


def silence(controller: Controller, seconds: float) -> None:
    controller._caches.jobs._pods._heard_at -= seconds


async def test_a_cache_that_was_silent_for_a_while_is_well(controller: Controller) -> None:
    silence(controller, 60)

    assert controller.stalled() is None


async def test_a_cache_that_stalled_is_no_life(controller: Controller) -> None:
    silence(controller, HOUR)

    stalled = controller.stalled()

    assert stalled is not None
    assert re.fullmatch(r"nothing was heard.* \{'pods': 360\d\}", stalled)


async def test_a_cache_that_fails_is_at_work(controller: Controller) -> None:
    # The API server is away: a restart would only lose what agents have said.
    silence(controller, HOUR)
    controller._caches.jobs._pods.failures = 3

    assert controller.stalled() is None


async def test_a_replica_that_can_no_longer_decide_is_broken(controller: Controller) -> None:
    # Else it would keep the Lease, and nobody would ever decide.
    async def lead() -> NoReturn:
        raise LookupError("a mistake of ours")

    controller._leading = asyncio.create_task(lead())

    with pytest.raises(LookupError, match="a mistake of ours"):
        await asyncio.wait_for(controller.until_broken(), 5)
