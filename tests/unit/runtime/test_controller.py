"""What a replica says of its own health, and what it keeps in mind while another leads."""

import asyncio
import re
import time
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

import pytest

from spotrun.agents.long_poll import Board
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client
from spotrun.kube.tasks import running
from spotrun.kube.watch.kopf_feed import Feed
from spotrun.metrics.registry import Meter
from spotrun.observe.kube_objects import FED
from spotrun.runtime.controller import Controller, Settings
from tests.unit.kube.scripted import ScriptedTransport

HOUR = 3600.0


@pytest.fixture
def controller() -> Controller:
    settings = Settings(namespace="home", advertise="a:1", address="a:1")
    client = Client(ScriptedTransport(lambda *_: {}), field_manager="test")
    return Controller(settings, client, cast("Any", None), Feed(FED))


def silence(controller: Controller, seconds: float) -> None:
    controller._caches.jobs._pods._heard_at -= seconds


async def test_a_cache_that_was_silent_for_a_while_is_well(controller: Controller) -> None:
    silence(controller, 60)

    assert controller.stalled() is None


async def test_a_cache_that_stalled_is_no_life(controller: Controller) -> None:
    silence(controller, HOUR)

    stalled = controller.stalled()

    assert stalled is not None
    assert re.fullmatch(r"seconds without any answer.* \{'pods': 360\d\}", stalled)


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


@dataclass
class Reign:
    """Leadership that comes and goes as a test wants it, and jobs that are remembered."""

    held: asyncio.Event = field(default_factory=asyncio.Event)
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    remembered: list[Key] = field(default_factory=list)
    worked_on: asyncio.Queue[Key] = field(default_factory=asyncio.Queue)

    @property
    def leads(self) -> bool:
        return self.held.is_set()

    def begin(self) -> None:
        self.lost.clear()
        self.held.set()

    def end(self) -> None:
        self.held.clear()
        self.lost.set()

    async def step_down(self) -> None:
        """Nobody is connected."""

    def unseen_seconds(self, _: Key) -> float:
        return 0.0

    async def reconcile(self, key: Key, _: float) -> float:
        self.worked_on.put_nowait(key)
        return float("inf")

    async def let_go_of_orphans(self, _: Key) -> None:
        """Former jobs have left nothing."""

    def stop_asking(self) -> None:
        """No search asks for values."""

    async def next_one(self) -> Key:
        """The job that is worked on next."""
        return await asyncio.wait_for(self.worked_on.get(), 10)


async def until_it_keeps_nothing(controller: Controller) -> None:
    """Jobs come and go, and are none of a standby's business."""
    async with asyncio.timeout(10):
        while True:
            controller._queue.add(Key("ns", "comes and goes"))
            controller._pool_queue.add("comes and goes")
            if not controller._queue.waiting() + controller._pool_queue.waiting():
                return
            await asyncio.sleep(0.001)


async def test_who_wants_something_else_of_a_job_waits_for_no_pause(controller: Controller) -> None:
    job, now = Key("ns", "job"), time.monotonic()
    controller._feed.resume()
    waiting = controller._queue._schedule
    waiting.add(job, now)
    assert waiting.take(now) == job
    waiting.failed(job, now, 100.0)

    controller.job_changed(job)  # as after each status of our own
    assert waiting.take(now) is None
    controller._asked(job)
    controller.job_changed(job)
    assert waiting.take(now) == job
    assert controller._urgent == set()


async def test_what_is_asked_of_jobs_is_not_kept_by_who_stands_by(controller: Controller) -> None:
    controller._asked(Key("ns", "job"))
    assert controller._urgent == set()


async def test_who_stands_by_keeps_no_names_and_who_leads_again_looks_at_what_it_knew(
    controller: Controller,
) -> None:
    known, comes = Key("ns", "known"), Key("ns", "comes")
    reign = Reign(remembered=[known])
    controller._election = controller._server = controller._reconciler = cast("Any", reign)
    controller._searches = cast("Any", reign)
    controller._board = Board(b"key")
    controller._meter = Meter(list, lambda: reign.leads)
    for reflector in controller._caches._reflectors.values():
        reflector.synced.set()

    async with running(controller._lead()):
        await until_it_keeps_nothing(controller)
        reign.begin()
        assert await reign.next_one() == known
        reign.end()
        await until_it_keeps_nothing(controller)
        reign.begin()
        assert await reign.next_one() == known
        controller._queue.add(comes)
        assert await reign.next_one() == comes
