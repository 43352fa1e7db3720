"""The relay of other tests leaves no connection behind, whenever somebody comes."""

import asyncio
from unittest.mock import Mock

import pytest

from tests.support.cluster.tcp_relay import Relay, relayed


@pytest.mark.parametrize("comes", ["just before", "after"])
async def test_who_comes_when_it_ends_is_hung_up_on(comes: str) -> None:
    relay, writer = Relay("127.0.0.1:1"), Mock(spec=asyncio.StreamWriter)
    if comes == "just before":
        relay.connect(Mock(spec=asyncio.StreamReader), writer)
    await relay.end()
    if comes == "after":
        relay.connect(Mock(spec=asyncio.StreamReader), writer)
        await relay.end()
    writer.transport.abort.assert_called_once_with()


async def test_what_one_end_says_comes_to_the_other_until_it_hangs_up() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(5))
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    target = "{}:{}".format(*server.sockets[0].getsockname())
    async with server, relayed(target) as relay:
        host, _, port = relay.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"hello")
        assert await asyncio.wait_for(reader.readexactly(5), 10) == b"hello"
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await asyncio.wait_for(reader.readexactly(1), 10)
        writer.transport.abort()


async def test_who_is_cut_off_is_hung_up_on_until_it_is_released() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    target = "{}:{}".format(*server.sockets[0].getsockname())
    async with server, relayed(target) as relay:
        host, _, port = relay.address.rpartition(":")

        async def heard() -> bytes:
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                return await asyncio.wait_for(reader.read(5), 10)
            except ConnectionError:
                return b""
            finally:
                writer.transport.abort()

        assert await heard() == b"hello"
        relay.cut()
        assert await heard() == b""
        relay.release()
        assert await heard() == b"hello"
