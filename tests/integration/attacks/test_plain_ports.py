"""The ports of metrics and probes, which nobody shows a token to.

Whoever fills them must not keep the kubelet out: it would take the operator for dead.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace

import aiohttp
import pytest

from spotrun.http.connection_limits import Limits
from spotrun.http.listener import Listener
from spotrun.http.probes import LIMITS, health, plain_server
from spotrun.http.rate_limit import Rate
from tests.integration.agents.helpers import HOST, eventually, rest
from tests.integration.attacks.helpers import crowd, most_connections

FREELY = replace(LIMITS, arrivals_per_address=Rate(per_second=1e6, burst=1e6))
HURRIED = replace(LIMITS, authentication_seconds=0.5)


async def is_probed(there: Listener) -> None:
    """The kubelet hears that all is well."""
    timeout = aiohttp.ClientTimeout(total=20)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(f"http://{HOST}:{there.port}/healthz") as response,
    ):
        assert await response.text() == "ok\n"


def probed(limits: Limits) -> Listener:
    """A port of probes, as the operator has one."""
    return plain_server({"/healthz": health(lambda: None)}, host=HOST, port=0, limits=limits)


async def test_ten_thousand_connections_come_to_a_port_of_probes(
    record_property: Callable[[str, object], None],
) -> None:
    """harmless: 50 connections of an address are accepted, and the kubelet is answered meanwhile"""
    number = most_connections()
    record_property("connections", number)
    async with probed(FREELY) as there:
        async with crowd(there.port) as strangers:
            await strangers.come(number, ["127.6.6.6"])
            await eventually(lambda: len(there.connections) == FREELY.unauthenticated_per_address)
            await is_probed(there)
        await eventually(lambda: len(there.connections) == 0)


async def test_connections_from_sixty_addresses_fill_a_port_of_probes() -> None:
    """harmless: connections are limited, and addresses with many give way to the kubelet"""
    most = min(most_connections(), FREELY.unauthenticated)
    async with probed(FREELY) as there:
        async with crowd(there.port) as strangers:
            await strangers.come(2 * most, [f"127.6.{place}.1" for place in range(60)])
            await eventually(lambda: len(there.connections) >= most)
            assert len(there.connections) <= FREELY.unauthenticated + 1
            await is_probed(there)
        await eventually(lambda: len(there.connections) == 0)


BEGINNINGS = {
    "nothing": b"",
    "half a request": b"GET /healthz HTTP/1.1\r\nHost: x\r\n",
    "a request without its body": b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n",
}


@pytest.mark.parametrize("sent", BEGINNINGS.values(), ids=BEGINNINGS)
async def test_a_connection_to_a_port_of_probes_sends(sent: bytes) -> None:
    """closed: a connection has a time limit"""
    async with probed(HURRIED) as there:
        reader, writer = await asyncio.open_connection(HOST, there.port)
        writer.write(sent)
        await rest(reader)
        writer.close()
        await eventually(lambda: len(there.connections) == 0)


async def test_a_request_to_a_port_of_probes_comes_one_byte_at_a_time() -> None:
    """closed: single bytes do not extend the time limit"""
    async with probed(HURRIED) as there:
        reader, writer = await asyncio.open_connection(HOST, there.port)
        answer = asyncio.create_task(rest(reader))
        writer.write(b"GET /healthz HTTP/1.1\r\nX: ")
        with contextlib.suppress(ConnectionError):
            while not answer.done():
                writer.write(b"x")
                await asyncio.wait({answer}, timeout=0.05)
        writer.close()
        assert await answer == b""


async def test_a_port_of_probes_is_asked_again_on_the_same_connection() -> None:
    """answered once: each answer needs a new connection, and connections are limited"""
    async with probed(LIMITS) as there:
        reader, writer = await asyncio.open_connection(HOST, there.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        answer = await rest(reader)
        writer.close()
    assert answer.count(b"HTTP/1.1 200") == 1
