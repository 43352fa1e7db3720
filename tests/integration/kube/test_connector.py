import asyncio
import contextlib
import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import aiohttp
import pytest

from spotrun.api.names import SERVER_NAME
from spotrun.http.certificates import Pair, make_authority, sign_serving
from spotrun.kube.rest.connector import Connector

PATIENCE_SECONDS = 15.0


class Mute:
    """A server that takes a request and never says another word, not even that of TLS's end."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listening.getsockname()[1]}/"
        self.was_asked = threading.Event()
        self.was_left = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(PATIENCE_SECONDS)
        self._listening.close()

    def _serve(self) -> None:
        plain, _ = self._listening.accept()
        with self._tls.wrap_socket(plain, server_side=True) as secure:
            secure.recv(4096)
            self.was_asked.set()
            with socket.socket(fileno=secure.detach()) as connection:
                with contextlib.suppress(ConnectionResetError):
                    while connection.recv(4096):
                        pass
                self.was_left.set()


@pytest.fixture
def authority() -> Pair:
    return make_authority(datetime.datetime.now(datetime.UTC))


@pytest.fixture
def mute(authority: Pair, tmp_path: Path) -> Iterator[Mute]:
    serving = sign_serving(authority, datetime.datetime.now(datetime.UTC))
    (tmp_path / "serving.pem").write_bytes(serving.certificate + serving.key)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "serving.pem")
    with Mute(tls) as mute:
        yield mute


async def test_a_request_that_was_given_up_leaves_no_connection_behind(
    authority: Pair, mute: Mute
) -> None:
    trust = ssl.create_default_context(cadata=authority.certificate.decode())
    async with aiohttp.ClientSession(connector=Connector(trust)) as session:
        asking = asyncio.ensure_future(session.get(mute.url, server_hostname=SERVER_NAME))
        assert await asyncio.to_thread(mute.was_asked.wait, PATIENCE_SECONDS)
        asking.cancel()
        await asyncio.wait({asking})
        assert not mute.was_left.is_set()
    assert await asyncio.to_thread(mute.was_left.wait, PATIENCE_SECONDS)
