"""Attacks on the page: from other sites, from other programs of this machine, and by a cluster's
own text. The server is the real one, on a real port; the cluster is played by two stores."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from spotrun.cli.page.door import COOKIE, MOST_WRONG_TICKETS, Door
from spotrun.cli.page.following import FleetFollower
from spotrun.cli.page.server import Page, assets
from spotrun.kube.clock import Clock
from tests.support.screens.shown_jobs import shown_job

EVIL = '<img src=x onerror="alert(1)">'


@asynccontextmanager
async def served() -> AsyncIterator[Door]:
    cluster = cast("Any", SimpleNamespace(client=SimpleNamespace(clock=Clock()), namespace="ml"))
    fleet = FleetFollower(cluster, None, ())
    job = shown_job(status={"message": EVIL, "phase": "Pending", "reason": "WaitingForCapacity"})
    fleet.jobs._tell([(None, job)])
    listener = socket.create_server(("127.0.0.1", 0))
    door = Door(port=listener.getsockname()[1])
    async with Page(cluster, fleet, door).application() as app:
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await runner.setup()
        await web.SockSite(runner, listener).start()
        try:
            yield door
        finally:
            await runner.cleanup()


async def raw(door: Door, text: str | bytes) -> str:
    """Send bytes as no client would, and return what comes back until the server hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(text if isinstance(text, bytes) else text.encode())
    await writer.drain()
    try:
        return (await asyncio.wait_for(reader.read(65_536), 10)).decode()
    finally:
        writer.close()


def asked(door: Door, path: str = "", method: str = "GET", **headers: str) -> str:
    """Return a request with the right cookie, and with what an attacker changes of it."""
    sent = {
        "Host": f"127.0.0.1:{door.port}",
        "Cookie": f"{COOKIE}={door.session}",
        "Connection": "close",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = [f"{method} {path or door.root} HTTP/1.1", *(f"{k}: {v}" for k, v in sent.items())]
    return "\r\n".join([*lines, "", ""])


def status(answer: str) -> int:
    return int(answer.split(" ", 2)[1])


FROM_ELSEWHERE = {
    "DNS rebinding": ({"Host": "evil.example"}, 421),
    "DNS rebinding with our port": ({"Host": "evil.example:{port}"}, 421),
    "a host that begins like ours": ({"Host": "127.0.0.1:{port}.evil.example"}, 421),
    "no port": ({"Host": "127.0.0.1"}, 421),
    "a cross-site fetch": ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "cors"}, 403),
    "another port of this machine": ({"Sec_Fetch_Site": "same-site"}, 403),
    "a link on another site": ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}, 403),
    "an origin of another site": ({"Origin": "https://evil.example"}, 403),
    "an opaque origin": ({"Origin": "null"}, 403),
    "an origin on another port": ({"Origin": "http://127.0.0.1:1"}, 403),
    "no cookie": ({"Cookie": ""}, 403),
    "a guessed cookie": ({"Cookie": f"{COOKIE}=AAAA"}, 403),
    "a cookie that no ASCII has": ({"Cookie": f"{COOKIE}=\u00e9"}, 403),
}


@pytest.mark.parametrize("name", FROM_ELSEWHERE)
async def test_who_comes_from_elsewhere_is_refused_even_with_the_cookie(name: str) -> None:
    headers, expected = FROM_ELSEWHERE[name]
    async with served() as door:
        assert status(await raw(door, asked(door))) == 200
        changed = {key: value.format(port=door.port) for key, value in headers.items()}
        answer = await raw(door, asked(door, **changed))
    assert (status(answer), "<script" in answer) == (expected, False)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api/fleet",
        "/index.html",
        "{root}../main.js",
        "{root}..%2f..%2fdoor.py",
        "{root}%2e%2e/door.py",
        "{root}door.py",
        "{root}types.d.ts",
        "{root}jsconfig.json",
        "{root}main.js/",
        "{root}//etc/passwd",
        "{root}api/jobs/ml/..",
        "{root}api/jobs/ml/gpt%00/log",
        "{root}api/jobs/ml%2fgpt/gpt",
        "{root}api/jobs/kube-system/gpt/log",
        "{root}api/jobs/ml/{long}",
    ],
)
async def test_a_path_leads_nowhere_but_to_the_page(path: str) -> None:
    async with served() as door:
        full = path.replace("{root}", door.root).replace("{long}", "x" * 3_000)
        answer = await raw(door, asked(door, full))
    assert status(answer) in (403, 404)
    assert "import " not in answer


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE"])
async def test_nothing_but_get_is_understood(method: str) -> None:
    async with served() as door:
        answer = await raw(door, asked(door, method=method))
    assert status(answer) == 405


@pytest.mark.parametrize(
    "sent",
    [
        "GET / HTTP/1.1\r\nX: " + "y" * 100_000 + "\r\n\r\n",
        "GET /" + "y" * 100_000 + " HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
    ids=["a long header", "a long address", "TLS", "smuggling"],
)
async def test_what_is_no_request_gets_an_error_and_the_page_goes_on(sent: str | bytes) -> None:
    async with served() as door:
        answer = await raw(door, sent)
        assert status(answer) in (400, 414, 431)
        assert status(await raw(door, asked(door))) == 200


async def test_a_get_with_a_body_is_refused() -> None:
    async with served() as door:
        answer = await raw(door, asked(door, Content_Length="5") + "hello")
    assert status(answer) == 400


async def test_the_address_opens_the_page_once_and_its_cookie_is_bound_to_it() -> None:
    async with served() as door:
        path = f"/enter/{door.ticket}"
        first = await raw(door, asked(door, path, Cookie=""))
        again = await raw(door, asked(door, path, Cookie=""))
    assert (status(first), status(again)) == (200, 410)
    [cookie] = [line for line in first.splitlines() if line.lower().startswith("set-cookie")]
    assert {"HttpOnly", f"Path={door.root}", "SameSite=Strict"} <= set(cookie.split("; "))
    assert door.session not in again


async def test_tickets_are_not_guessed() -> None:
    async with served() as door, aiohttp.ClientSession() as session:
        found = []
        for number in range(MOST_WRONG_TICKETS + 1):
            async with session.get(f"http://127.0.0.1:{door.port}/enter/{number:043}") as answer:
                found.append(answer.status)
    assert (set(found[:-1]), found[-1]) == ({403}, 429)
    assert len(door.ticket) >= 43  # 256 bits


async def test_every_answer_forbids_inline_scripts_frames_and_other_sites() -> None:
    async with served() as door:
        for path in (door.root, f"{door.root}main.js", "/nothing", f"{door.root}nothing.js"):
            answer = await raw(door, asked(door, path))
            assert "Content-Security-Policy: default-src 'none'; script-src 'self'" in answer, path
            assert "unsafe" not in answer.split("\r\n\r\n")[0]
            assert "frame-ancestors 'none'" in answer
            assert "X-Content-Type-Options: nosniff" in answer
            assert "Access-Control-Allow-Origin" not in answer
            assert "aiohttp" not in answer.split("\r\n\r\n")[0]


async def test_text_of_the_cluster_is_data_and_never_a_page() -> None:
    async with served() as door:
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        writer.write(asked(door, f"{door.root}api/fleet").encode())
        answer = (await asyncio.wait_for(reader.readuntil(b"}\n\n"), 10)).decode()
        writer.close()
    assert "Content-Type: text/event-stream" in answer
    assert r"onerror=\"alert(1)\"" in answer  # as it is, for the page to show


def test_the_scripts_have_no_way_from_text_to_html() -> None:
    sinks = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(")
    for name, content in assets().items():
        text = content.decode()
        assert not [sink for sink in sinks if sink in text], name
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", ""), name
        assert "https://" not in text, name
        assert " style=" not in text, name
    assert "<script>" not in assets()["index.html"].decode()


async def test_streams_are_bounded() -> None:
    async with served() as door:
        with many(door, 32) as connections:
            for one in connections:
                assert b"200 OK" in await asyncio.to_thread(one.recv, 4096)
            answer = await raw(door, asked(door, f"{door.root}api/fleet"))
    assert status(answer) == 503


@contextmanager
def many(door: Door, number: int) -> Iterator[list[socket.socket]]:
    made = []
    try:
        for _ in range(number):
            made.append(socket.create_connection(("127.0.0.1", door.port)))
            made[-1].sendall(asked(door, f"{door.root}api/fleet").encode())
        yield made
    finally:
        for one in made:
            one.close()
