"""kopf around a service: what the process does when the service, kopf or a signal says so."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from spotrun.kube.resource import Key
from spotrun.kube.watch.kopf_feed import Feed
from spotrun.observe.kube_objects import TRAINING_JOBS, JobMeta, JobObject
from spotrun.runtime import kopf_host


class Scripted:
    """A service whose health is told."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.opened = asyncio.Event()
        self.closed = False
        self.may_open = asyncio.Event()
        self.may_open.set()
        self.trouble: str | None = None
        self.told: asyncio.Queue[Key | str] = asyncio.Queue()
        self.mistake = asyncio.get_running_loop().create_future()

    def stalled(self) -> str | None:
        return self.trouble

    async def until_broken(self) -> None:
        await self.mistake

    def job_changed(self, key: Key) -> None:
        self.told.put_nowait(key)

    def pool_changed(self, name: str) -> None:
        self.told.put_nowait(name)

    def search_changed(self, key: Key) -> None:
        self.told.put_nowait(key)

    @asynccontextmanager
    async def open(self, feed: Feed) -> AsyncIterator["Scripted"]:
        self.feed = feed
        self.begun.set()
        await self.may_open.wait()
        self.opened.set()
        try:
            yield self
        finally:
            await asyncio.sleep(0)  # closing takes its time, as does releasing a Lease
            self.closed = True


Endpoint = tuple[str, int]


@pytest.fixture
def endpoint() -> Endpoint:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return ("127.0.0.1", free.getsockname()[1])


@pytest.fixture
def endpoint_of_ipv6() -> Endpoint:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as free:
            return ("::1", free.getsockname()[1])
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error}")


async def answer(endpoint: Endpoint) -> tuple[int, str]:
    host, port = endpoint
    url = f"http://[{host}]:{port}/healthz" if ":" in host else f"http://{host}:{port}/healthz"
    async with asyncio.timeout(5), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(url) as response:
                    return response.status, await response.text()
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.01)


async def test_sigterm_closes_the_service_and_ends(endpoint: Endpoint) -> None:
    service = Scripted()
    host = asyncio.create_task(kopf_host.host(service.open, liveness=endpoint))
    await service.opened.wait()
    await answer(endpoint)
    os.kill(os.getpid(), signal.SIGTERM)

    async with asyncio.timeout(2):
        await host
    assert service.closed


async def test_the_user_of_the_process_may_have_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise OSError("No username set in the environment")

    monkeypatch.setattr("getpass.getuser", nameless)
    service = Scripted()
    host = asyncio.create_task(kopf_host.host(service.open))
    async with asyncio.timeout(5):
        await asyncio.wait(
            {host, asyncio.ensure_future(service.opened.wait())},
            return_when=asyncio.FIRST_COMPLETED,
        )
    assert service.opened.is_set()
    host.cancel()
    await asyncio.gather(host, return_exceptions=True)


async def test_a_service_that_takes_long_to_open_is_alive_and_can_be_ended(
    endpoint: Endpoint,
) -> None:
    service = Scripted()
    service.may_open.clear()
    host = asyncio.create_task(kopf_host.host(service.open, liveness=endpoint))

    assert await answer(endpoint) == (200, "ok\n")

    await service.begun.wait()  # from then on signals are heeded
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(2):
        await host


async def test_liveness_fails_at_once_with_the_service(endpoint: Endpoint) -> None:
    service = Scripted()
    host = asyncio.create_task(kopf_host.host(service.open, liveness=endpoint))
    await service.opened.wait()
    service.trouble = "nothing was heard of pods"

    assert await answer(endpoint) == (503, "nothing was heard of pods\n")

    service.trouble = None
    assert await answer(endpoint) == (200, "ok\n")
    os.kill(os.getpid(), signal.SIGTERM)
    await host


def tell_of_a_job(service: Scripted) -> None:
    meta = JobMeta(name="job", namespace="ns", uid="u", resource_version="1")
    service.feed.resume()
    service.feed.handler(TRAINING_JOBS)(None, JobObject(meta))


async def test_what_the_service_tells_the_feed_comes_back_by_kopf(endpoint: Endpoint) -> None:
    service = Scripted()
    host = asyncio.create_task(kopf_host.host(service.open, liveness=endpoint))
    await service.opened.wait()
    tell_of_a_job(service)

    async with asyncio.timeout(5):
        assert await service.told.get() == Key("ns", "job")
    assert await answer(endpoint) == (200, "ok\n")
    os.kill(os.getpid(), signal.SIGTERM)
    await host


async def test_liveness_fails_where_kopf_handles_nothing(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Feed, "handled", lambda *_: None)
    monkeypatch.setattr(kopf_host, "UNHEARD_SECONDS", 0.0)
    service = Scripted()
    host = asyncio.create_task(kopf_host.host(service.open, liveness=endpoint))
    await service.opened.wait()
    assert await answer(endpoint) == (200, "ok\n")
    tell_of_a_job(service)

    assert await answer(endpoint) == (503, "kopf has not handled a change for 0 s\n")
    os.kill(os.getpid(), signal.SIGTERM)
    await host


async def test_liveness_is_served_where_all_addresses_are_of_ipv6(
    endpoint_of_ipv6: Endpoint,
) -> None:
    service = Scripted()
    host = asyncio.create_task(kopf_host.host(service.open, liveness=endpoint_of_ipv6))

    assert (await answer(endpoint_of_ipv6))[0] == 200
    await service.begun.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(5):
        await host


async def test_a_service_that_breaks_ends_the_process_with_its_error(endpoint: Endpoint) -> None:
    @asynccontextmanager
    async def broken(_: Feed) -> AsyncIterator[Scripted]:
        raise OSError("port in use")
        yield

    async with asyncio.timeout(2):
        with pytest.raises(OSError, match="port in use"):
            await kopf_host.host(broken, liveness=endpoint)


async def test_a_service_that_breaks_at_work_ends_the_process_with_its_error() -> None:
    service = Scripted()
    host = asyncio.create_task(kopf_host.host(service.open))
    await service.opened.wait()
    service.mistake.set_exception(LookupError("a mistake of ours"))

    with pytest.raises(LookupError, match="a mistake of ours"):
        async with asyncio.timeout(5):
            await host
    assert service.closed


async def test_a_liveness_port_in_use_ends_the_process(endpoint: Endpoint) -> None:
    service = Scripted()
    with (
        socket.create_server(endpoint),
        pytest.raises(OSError, match=r"(?i)address already in use"),
    ):
        await kopf_host.host(service.open, liveness=endpoint)
    assert not service.opened.is_set()


async def test_being_cancelled_closes_the_service() -> None:
    service = Scripted()
    host = asyncio.create_task(kopf_host.host(service.open))
    await service.opened.wait()
    host.cancel()
    await asyncio.gather(host, return_exceptions=True)

    assert service.closed


async def test_who_is_ended_asks_for_no_end() -> None:
    # Under `kopf run` that is a second signal, at which kopf fails.
    service, asked = Scripted(), asyncio.Event()
    hosted = kopf_host.OpeningService(service.open, asked.set)
    await hosted.begin()
    await service.opened.wait()

    await hosted.end()

    assert service.closed
    assert not asked.is_set()


@pytest.mark.parametrize("error", [None, LookupError("a mistake of ours")])
async def test_a_service_that_ends_by_itself_asks_for_the_end(error: Exception | None) -> None:
    service, asked = Scripted(), asyncio.Event()
    hosted = kopf_host.OpeningService(service.open, asked.set)
    await hosted.begin()
    await service.opened.wait()
    if error is None:
        service.mistake.set_result(None)
    else:
        service.mistake.set_exception(error)

    await asyncio.wait_for(asked.wait(), 5)

    assert hosted.failure is error
    await hosted.end()
