"""More than a server likes: connections, bytes, headers; each flood costs its own sender.

Bodies, headers and handshakes that come slowly or not at all are in tests/integration/serve. Time-
outs are options of the server under test; nothing here waits for them to pass by chance.
"""

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator, Callable

import pytest

from spotrun.agents.routes import RequestLimits
from spotrun.http.connection_limits import Limits
from spotrun.http.rate_limit import Rate
from tests.integration.agents.helpers import (
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
from tests.integration.attacks.helpers import crowd, most_connections
from tests.support.jobs.published_jobs import job, worker, world

MIB = 2**20
IMPATIENT = RequestLimits(poll_seconds=30, body_seconds=1)
FREELY = Rate(per_second=1e6, burst=1e6)


@pytest.fixture
async def there() -> AsyncIterator[Replica]:
    async with replica(request_limits=IMPATIENT) as there:
        there.board.publish(job(world("0-2")), version=1)
        yield there
        await is_served(there)


def head(*lines: str, what: str = "report", method: str = "POST", query: str = "") -> bytes:
    first = f"{method} {path(worker(0), what)}{query} HTTP/1.1"
    authorization = f"Authorization: Bearer {TOKEN}"
    known = ("Host: x", "Connection: close", authorization)
    return "\r\n".join((first, *known, *lines, "", "")).encode()


async def flood(
    there: Replica, first: bytes, more: bytes, most_bytes: int = 200 * MIB
) -> tuple[bytes, int]:
    """Send without end, for half a second at most; returns what was answered, and what was sent."""
    async with raw(there) as (reader, writer):
        writer.transport.set_write_buffer_limits(high=0)
        writer.write(first)
        sent = 0
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(0.5):
                while sent < most_bytes and not writer.transport.is_closing():
                    writer.write(more)
                    await writer.drain()
                    sent += len(more)
        with contextlib.suppress(TimeoutError):
            return await rest(reader, seconds=5.0), sent
        return b"", sent


# connections -------------------------------------------------------------------------------------


async def test_ten_thousand_connections_come_from_one_address(
    record_property: Callable[[str, object], None],
) -> None:
    """harmless: 256 connections are accepted, and other addresses are served meanwhile"""
    number = most_connections()
    record_property("connections", number)
    limits = Limits(arrivals_per_address=FREELY)
    async with replica(limits=limits) as there:
        there.board.publish(job(world("0-2")), version=1)
        async with crowd(there.server.port) as strangers:
            await strangers.come(number, ["127.6.6.6"])
            await there.until(connections=min(number, limits.unauthenticated_per_address))
            await is_served(there)
        await there.until(connections=0)


async def test_ten_thousand_connections_come_from_a_hundred_addresses(
    record_property: Callable[[str, object], None],
) -> None:
    """harmless: unauthenticated connections are limited, and give way to a joining worker"""
    number = most_connections()
    record_property("connections", number)
    # Where it takes longer for all of them to come, the first ones would be gone by then.
    limits = Limits(arrivals_per_address=FREELY, authentication_seconds=60)
    async with replica(limits=limits) as there, Caller(there) as known:
        there.board.publish(job(world("0-2")), version=1)
        assert (await known.poll(worker(1), "pod-uid-1")).status == 200
        async with crowd(there.server.port) as strangers:
            await strangers.come(number, [f"127.6.{place}.1" for place in range(100)])
            await eventually(
                lambda: there.server.num_connections >= min(number, limits.unauthenticated)
            )
            assert there.server.num_connections <= limits.unauthenticated + 1
            assert (await known.poll(worker(1), "pod-uid-1")).status == 200
            await is_served(there)
        await there.until(connections=1)


async def test_a_connection_stops_in_the_middle_of_its_handshake() -> None:
    """closed: a handshake has a time limit"""
    async with replica(limits=Limits(authentication_seconds=1)) as there:
        there.board.publish(job(world("0-2")), version=1)
        reader, writer = await asyncio.open_connection(HOST, there.server.port)
        writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")  # of a ClientHello
        assert await rest(reader) == b""
        writer.close()
        await there.until(connections=0)
        await is_served(there)


# bytes -------------------------------------------------------------------------------------------


async def test_a_worker_pipelines_requests_while_its_poll_is_held(there: Replica) -> None:
    """harmless: requests that the operator does not read yet stay in the socket's buffers"""
    async with Caller(there) as caller:
        seen = (await caller.poll(worker(0), TOKEN)).content["version"]
    polls = head(what="world", method="GET", query=f"?seen={seen}")
    _, sent = await flood(there, polls, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 2_000)
    assert sent < 32 * MIB  # what buffers on the way hold


async def test_a_worker_turns_its_connection_into_another_protocol(there: Replica) -> None:
    """harmless: the operator does not keep what is sent after that"""
    async with Caller(there) as caller:
        seen = (await caller.poll(worker(0), TOKEN)).content["version"]
    polls = head(what="world", method="GET", query=f"?seen={seen}")
    polls = polls.replace(b"Connection: close", b"Connection: upgrade\r\nUpgrade: h2c")
    _, sent = await flood(there, polls, b"x" * 65_536)
    assert sent < 64 * MIB


async def test_a_worker_speaks_http_2(there: Replica) -> None:
    """refused"""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00" * 64
    answer, _ = await flood(there, preface, b"\x00" * 65_536)
    assert b" 400 " in answer or answer == b""


async def test_a_worker_asks_for_a_tunnel(there: Replica) -> None:
    """refused"""
    answer, _ = await flood(there, b"CONNECT 10.0.0.1:443 HTTP/1.1\r\nHost: x\r\n\r\n", b"x" * 99)
    assert answer.startswith(b"HTTP/1.1 404")


LENGTHS = {
    "of forty digits": "9" * 40,
    "that is a float": "1e9",
    "in hexadecimal": "0x10",
    "with a sign": "+1",
    "in another script": "\u0663",
}


@pytest.mark.parametrize("length", LENGTHS.values(), ids=LENGTHS)
async def test_a_report_has_a_content_length(there: Replica, length: str) -> None:
    """refused"""
    answer, _ = await flood(there, head(f"Content-Length: {length}"), b"{}", most_bytes=2)
    assert b" 400 " in answer


async def test_a_report_promises_eight_exabytes_and_sends_two_bytes(there: Replica) -> None:
    """refused after a timeout: no memory is reserved for what is promised"""
    answer, _ = await flood(there, head(f"Content-Length: {2**63 - 1}"), b"{}", most_bytes=2)
    assert answer.startswith(b"HTTP/1.1 408")


async def test_a_report_dribbles_in_chunks_of_one_byte(there: Replica) -> None:
    """refused after a timeout: single bytes do not extend it"""
    async with raw(there) as (reader, writer):
        writer.write(head("Transfer-Encoding: chunked"))
        answer = asyncio.create_task(rest(reader, seconds=20))
        with contextlib.suppress(ConnectionError):
            while not answer.done():
                writer.write(b"1\r\n{\r\n")
                await asyncio.wait({answer}, timeout=0.05)
    assert (await answer).startswith(b"HTTP/1.1 408")


async def test_a_report_has_trailers_without_end(there: Replica) -> None:
    """refused"""
    first = head("Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n"
    answer, _ = await flood(there, first, b"X-A: bbbbbbbbbbbbbbbbbbbbbb\r\n" * 2_000)
    assert b" 400 " in answer or answer == b""
    assert there.heard.reports == []


async def test_a_chunk_of_a_report_has_an_extension_without_end(there: Replica) -> None:
    """refused after a timeout: what is no content is not kept"""
    first = head("Transfer-Encoding: chunked") + b"2;"
    answer, _ = await flood(there, first, b"x" * 65_536)
    assert answer.startswith(b"HTTP/1.1 408") or answer == b""
    assert there.heard.reports == []


BOMB = zlib.compress(b"0" * 10 * MIB, level=9)  # ten kilobytes


@pytest.mark.parametrize("coding", ["deflate", "gzip", "br", "zstd", "gzip, gzip"])
async def test_a_report_is_a_compression_bomb(there: Replica, coding: str) -> None:
    """refused: the operator decompresses nothing, whatever the header says"""
    lines = (f"Content-Encoding: {coding}", f"Content-Length: {len(BOMB)}")
    answer, _ = await flood(there, head(*lines), BOMB, most_bytes=len(BOMB))
    assert b" 400 " in answer
    assert b"this is not JSON" in answer
    assert there.heard.reports == []


async def test_a_report_has_a_compressed_transfer_encoding(there: Replica) -> None:
    """refused"""
    answer, _ = await flood(there, head("Transfer-Encoding: gzip, chunked"), BOMB, most_bytes=1)
    assert b" 400 " in answer or b" 408 " in answer
    assert there.heard.reports == []


HEADERS = {
    "an endless request line": b"GET /" + b"x" * MIB,
    "an endless header name": b"GET / HTTP/1.1\r\nX-" + b"x" * MIB,
    "an endless header value": b"GET / HTTP/1.1\r\nX: " + b"x" * MIB,
    "folded lines": b"GET / HTTP/1.1\r\nX: a\r\n" + b" b\r\n" * 100_000,
    "a zero byte": b"GET / HTTP/1.1\r\nX: a\x00b\r\n\r\n",
    "a space before the colon": b"GET / HTTP/1.1\r\nContent-Length : 5\r\n\r\n",
    "two hosts": b"GET /v1 HTTP/1.1\r\nHost: a\r\nHost: b\r\nX: \xff\r\n\r\n\r\n",
    "no HTTP version": b"GET /\r\n\r\n",
    "an unknown HTTP version": b"GET / HTTP/9.9\r\n\r\n",
}


@pytest.mark.parametrize("sent", HEADERS.values(), ids=HEADERS)
async def test_a_request_is_malformed(
    there: Replica, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """refused without a log line; the answer does not reveal which server it is"""
    answer, _ = await flood(there, sent, b"", most_bytes=0)
    assert b" 400 " in answer or b" 404 " in answer
    assert b"aiohttp" not in answer
    assert b"Python" not in answer
    assert caplog.records == []
