"""Clients that mean harm, or are broken: each costs itself, and nobody else."""

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from spotrun.agents.long_poll import WorkerKey
from spotrun.agents.routes import RequestLimits
from spotrun.http.connection_limits import Limits
from spotrun.http.rate_limit import Rate
from spotrun.kube.resource import Key
from tests.integration.agents.helpers import (
    GENEROUS,
    HOST,
    TOKEN,
    Caller,
    Replica,
    eventually,
    is_served,
    path,
    raw,
    replica,
    rest,
)
from tests.support.jobs.published_jobs import job, worker, world

QUICK = RequestLimits(poll_seconds=30, body_seconds=1)
HURRIED = Limits(
    authentication_seconds=1,
    idle_seconds=1.5,
    arrivals_per_address=Rate(per_second=1_000, burst=1_000),
)


@pytest.fixture
async def there() -> AsyncIterator[Replica]:
    async with replica(request_limits=QUICK, limits=HURRIED) as there:
        there.board.publish(job(world("0-2")), version=1)
        yield there
        await is_served(there)


BAD_REPORTS: dict[str, bytes] = {
    "no JSON": b"hello",
    "not UTF-8": b"\xff\xfe",
    "empty": b"",
    "a list": b"[]",
    "deep": b'{"wire": 1, "progress": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "NaN": b'{"wire": 1, "utilization": {"gpu": NaN}}',
    "infinity": b'{"wire": 1, "progress": {"step": 1, "stepSeconds": Infinity}}',
    "1e308": b'{"wire": 1, "progress": {"step": 1, "stepSeconds": 1e308}}',
    "beyond floats": b'{"wire": 1, "utilization": {"gpu": 1e999}}',
    "negative step": b'{"wire": 1, "progress": {"step": -1}}',
    "many digits": b'{"wire": 1, "arrived": ' + b"9" * 10_000 + b"}",
    "many suspects": b'{"wire": 1, "suspects": [1,2,3,4,5,6,7,8,9]}',
    "a port that is none": b'{"wire": 1, "storePort": 70000}',
    "a path as checkpoint": b'{"wire": 1, "committed": {"checkpoint": "../../etc"}}',
}


@pytest.mark.parametrize("report", BAD_REPORTS.values(), ids=BAD_REPORTS)
async def test_a_bad_report_is_refused_in_a_sentence(there: Replica, report: bytes) -> None:
    async with Caller(there) as caller:
        said = await caller.report(worker(0), TOKEN, report)

    assert said.status == 400
    assert len(said.content["message"]) > 10
    assert there.heard.reports == []
    assert there.heard.woken == []


async def test_a_report_in_an_old_version_is_refused_and_the_job_told(there: Replica) -> None:
    async with Caller(there) as caller:
        said = await caller.report(worker(0), TOKEN, b'{"ready": true}')

    assert said.status == 400
    assert "newer agent" in said.content["message"]
    assert there.heard.reports == []
    assert there.heard.woken == [Key("team", "job")]


async def test_a_zipped_report_is_not_unpacked(there: Replica) -> None:
    bomb = gzip.compress(b"0" * 10_000_000)
    async with Caller(there) as caller:
        said = await caller.send(
            "POST",
            path(worker(0), "report"),
            TOKEN,
            data=bomb,
            headers={"Content-Encoding": "gzip"},
        )

    assert said.status == 400


def head(*lines: str, what: str = "report", method: str = "POST") -> bytes:
    first = f"{method} {path(worker(0), what)} HTTP/1.1"
    authorization = f"Authorization: Bearer {TOKEN}"
    return "\r\n".join((first, "Host: x", authorization, *lines, "", "")).encode()


async def test_megabytes_are_not_read(there: Replica) -> None:
    async with raw(there) as (reader, writer):
        writer.write(head("Content-Length: 100000000") + b"x" * 100_000)
        answer = await rest(reader)
    assert answer.startswith(b"HTTP/1.1 413")


async def test_megabytes_in_chunks_are_not_read(there: Replica) -> None:
    async with raw(there) as (reader, writer):
        writer.write(head("Transfer-Encoding: chunked"))
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 50_000_000 and not writer.transport.is_closing():
                writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
                await writer.drain()
                sent += 65_536
        answer = await rest(reader)
    assert answer.startswith(b"HTTP/1.1 413") or not answer
    assert sent < 10_000_000  # what buffers on the way hold
    assert there.heard.reports == []


async def test_a_body_that_does_not_come(there: Replica) -> None:
    async with raw(there) as (reader, writer):
        writer.write(head("Content-Length: 100") + b"{")
        assert (await rest(reader)).startswith(b"HTTP/1.1 408")


async def test_headers_that_come_one_byte_at_a_time(there: Replica) -> None:
    async with raw(there) as (reader, writer):
        answer = asyncio.create_task(rest(reader))
        with contextlib.suppress(ConnectionError):
            for byte in head():
                writer.write(bytes([byte]))
                await asyncio.sleep(0.05)
                if answer.done():
                    break
        assert await answer == b""
    await there.until(connections=0)


async def test_a_connection_that_never_begins_tls(there: Replica) -> None:
    reader, writer = await asyncio.open_connection(HOST, there.server.port)
    assert await rest(reader) == b""
    writer.close()
    await there.until(connections=0)


async def test_a_connection_that_speaks_no_tls(there: Replica) -> None:
    reader, writer = await asyncio.open_connection(HOST, there.server.port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    await rest(reader)
    writer.close()
    await there.until(connections=0)


async def test_a_stranger_who_keeps_asking_is_sent_away(there: Replica) -> None:
    async with raw(there) as (reader, writer):
        for _ in range(100):
            writer.write(b"GET /v1/nothing HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = await rest(reader)
    assert answer.count(b"HTTP/1.1 404") == 1


BAD_HEADERS: dict[str, list[str]] = {
    "huge": ["X-Much: " + "x" * 100_000],
    "many": [f"X-{number}: 1" for number in range(1_000)],
    "no header": ["hello"],
    "two lengths": ["Content-Length: 1", "Content-Length: 2"],
    "a length that is none": ["Content-Length: -1"],
    "length and chunks": ["Content-Length: 1", "Transfer-Encoding: chunked"],
}


@pytest.mark.parametrize("lines", BAD_HEADERS.values(), ids=BAD_HEADERS)
async def test_bad_headers_are_refused_and_fill_no_log(
    there: Replica, lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with raw(there) as (reader, writer):
        writer.write(head(*lines))
        answer = await rest(reader)

    assert answer.startswith(b"HTTP/1.0 400")
    assert caplog.records == []


@pytest.mark.parametrize(
    ("method", "where", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1/jobs/team/job/workers/../../world", 404),
        ("GET", "/v1/jobs/team/job/workers/%2e%2e/world", 404),
        ("GET", path(worker(0), "report"), 405),
        ("POST", path(worker(0), "world"), 405),
        ("DELETE", path(worker(0), "world"), 405),
    ],
)
async def test_other_requests(there: Replica, method: str, where: str, status: int) -> None:
    async with Caller(there) as caller:
        assert (await caller.send(method, where, TOKEN)).status == status


async def test_many_polls_of_one_worker_leave_one_open(there: Replica) -> None:
    async with Caller(there) as caller:
        seen = (await caller.poll(worker(0), TOKEN)).content["version"]
        polls = [asyncio.create_task(caller.poll(worker(0), TOKEN, seen)) for _ in range(30)]
        most = Limits().connections_per_worker
        await eventually(lambda: sum(not poll.done() for poll in polls) <= most)

        await eventually(lambda: there.board.num_polls == 1)
        await eventually(lambda: there.server.num_connections <= most)
        # Those whose connection gave way were hung up on, the others were answered.
        done = [poll for poll in polls if poll.done()]
        assert {poll.result().status for poll in done if poll.exception() is None} == {200}
        there.board.release()
        await asyncio.gather(*polls, return_exceptions=True)


async def test_a_worker_that_asks_without_a_pause() -> None:
    request_limits = RequestLimits(poll_seconds=30, requests=Rate(per_second=0.01, burst=5))
    async with replica(request_limits=request_limits) as there, Caller(there) as caller:
        there.board.publish(job(world("0-2")), version=1)

        said = [await caller.poll(worker(0), TOKEN) for _ in range(10)]

        assert [one.status for one in said[:5]] == [200] * 5
        assert {one.status for one in said[6:]} == {429}
        assert int(said[-1].headers["Retry-After"]) >= 1
        await is_served(there)


@pytest.mark.parametrize("hostile", [worker(0), worker(77)], ids=["a worker", "of no job"])
async def test_who_asks_too_often_waits_for_its_answer_and_nobody_else_does(
    hostile: WorkerKey,
) -> None:
    token = f"pod-uid-{hostile.pod.rpartition('-')[2]}"
    request_limits = RequestLimits(
        poll_seconds=30, requests=Rate(per_second=0.01, burst=5), flood_seconds=30
    )
    async with replica(request_limits=request_limits) as there, Caller(there) as caller:
        there.board.publish(job(world("0-2")), version=1)
        said = [await caller.poll(hostile, token) for _ in range(5)]
        assert len({one.status for one in said} & {200, 404}) == 1

        flood = [asyncio.create_task(caller.poll(hostile, token)) for _ in range(3)]
        await is_served(there)

        assert [one.done() for one in flood] == [False] * 3
        for one in flood:
            one.cancel()
        await asyncio.gather(*flood, return_exceptions=True)


def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The reader is only kept: a connection ends with it."""
    writer.transport.abort()


async def test_a_flood_of_connections_costs_its_own_address() -> None:
    limits = Limits(
        unauthenticated_per_address=20, arrivals_per_address=Rate(per_second=1_000, burst=1_000)
    )
    async with replica(limits=limits) as there:
        there.board.publish(job(world("0-2")), version=1)
        async with contextlib.AsyncExitStack() as flood:
            for _ in range(300):
                reader, writer = await asyncio.open_connection(
                    HOST, there.server.port, local_addr=("127.6.6.6", 0)
                )
                flood.callback(hang_up, reader, writer)
            await asyncio.sleep(0.2)

            assert there.server.num_connections == 20
            await is_served(there)
        await there.until(connections=0)


async def test_arrivals_without_end_are_turned_away_before_any_tls() -> None:
    limits = Limits(arrivals_per_address=Rate(per_second=0.001, burst=10))
    async with replica(limits=limits) as there:
        there.board.publish(job(world("0-2")), version=1)
        good = 0
        for _ in range(50):
            with contextlib.suppress(OSError):
                async with raw(there, local="127.6.6.6"):
                    good += 1

        assert good == 10
        await is_served(there)


@pytest.fixture
async def patient() -> AsyncIterator[Replica]:
    """Limits that leave a busy machine the time to answer before it hangs up."""
    limits = replace(HURRIED, authentication_seconds=3)
    async with replica(request_limits=QUICK, limits=limits) as there:
        there.board.publish(job(world("0-2")), version=1)
        yield there
        await is_served(there)


async def test_who_shows_no_token_has_one_try_per_connection(patient: Replica) -> None:
    request = head(what="world", method="GET").replace(TOKEN.encode(), b"guess")
    async with raw(patient) as (reader, writer):
        writer.write(request * 5)
        answer = await rest(reader)

    assert answer.count(b"HTTP/1.1 401") == 1


async def test_a_good_token_of_no_worker_does_not_hold_a_connection(patient: Replica) -> None:
    unknown = path(worker(77), "world").encode()
    request = head(what="world", method="GET").replace(path(worker(0), "world").encode(), unknown)
    async with raw(patient) as (reader, writer):
        answers = asyncio.create_task(rest(reader))
        with contextlib.suppress(ConnectionError):
            while not answers.done():
                writer.write(request)
                await asyncio.sleep(0.1)

    assert (await answers).startswith(b"HTTP/1.1 404")


async def test_who_reads_nothing_holds_up_nobody() -> None:
    async with replica(
        limits=GENEROUS, request_limits=RequestLimits(requests=Rate(1e6, 1e6))
    ) as there:
        there.board.publish(job(world("0-2")), version=1)
        async with raw(there) as (_, writer):
            writer.transport.set_write_buffer_limits(high=0)
            request = head(what="world", method="GET")
            with contextlib.suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(1):
                    for _ in range(100_000):
                        writer.write(request)
                        await writer.drain()
            await is_served(there)


async def test_an_agent_that_hangs_up_in_a_poll_is_forgotten(there: Replica) -> None:
    async with Caller(there) as caller:
        seen = (await caller.poll(worker(0), TOKEN)).content["version"]
    async with raw(there) as (_, writer):
        request = head(what="world", method="GET").replace(
            b"/world", f"/world?seen={seen}".encode()
        )
        writer.write(request)
        await there.until_polled()
    await eventually(lambda: there.board.num_polls == 0)
