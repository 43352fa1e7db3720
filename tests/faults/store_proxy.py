"""A reverse proxy before an S3 server that lets requests fail as told, in a thread of its own."""

import asyncio
import io
import random
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import aiohttp
from aiohttp import web

Action = Literal["slow_down", "fail", "reset", "lose_answer", "cut_answer", "expire"]

FOR_EVER = -1
_XML = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{}</Code><Message>no</Message></Error>'
_ANSWERS: dict[Action, tuple[int, str]] = {
    "slow_down": (503, "SlowDown"),
    "fail": (500, "InternalError"),
    "expire": (400, "ExpiredToken"),
}
PASSING: tuple[Action, ...] = ("slow_down", "fail", "reset", "lose_answer", "cut_answer")


@dataclass
class Fault:
    """A fault of requests of a method and path: so many times, or of a part of them."""

    action: Action
    method: str = ".*"
    path: str = ".*"
    times: int = FOR_EVER
    share: float = 1.0
    struck: int = 0

    def strikes(self, method: str, path: str, dice: random.Random) -> bool:
        """Whether this request fails."""
        if self.struck == self.times or not re.fullmatch(self.method, method):
            return False
        if not re.search(self.path, path) or dice.random() >= self.share:
            return False
        self.struck += 1
        return True


@dataclass(frozen=True)
class Passed:
    """A request that came by, with what its bodies had."""

    method: str
    path: str  # with its query
    sent_bytes: int
    got_bytes: int
    status: int


@dataclass
class StoreProxy:
    """Faults, and every request that came by."""

    upstream: str
    seed: int = 0
    url: str = ""
    faults: list[Fault] = field(default_factory=list)
    log: list[tuple[str, str]] = field(default_factory=list)
    passed: list[Passed] = field(default_factory=list)  # the server has answered these
    ranges: list[str] = field(default_factory=list)  # that were asked for
    hidden: set[str] = field(default_factory=set)  # headers of answers, in lower case

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)  # noqa: S311 - no secrets

    async def handle(self, incoming: web.Request, session: aiohttp.ClientSession) -> web.Response:
        """Pass a request on, unless it is struck."""
        try:
            body = await incoming.read()
        except ConnectionError:  # its client was killed
            return _abort(incoming)
        self.log.append((incoming.method, incoming.path))
        if asked := incoming.headers.get("Range"):
            self.ranges.append(asked)
        action = self._action(incoming)
        if action in _ANSWERS:
            status, code = _ANSWERS[action]
            return web.Response(status=status, text=_XML.format(code))
        if action == "reset":
            return _abort(incoming)
        async with session.request(
            incoming.method,
            self.upstream + incoming.raw_path,
            headers=incoming.headers,
            data=io.BytesIO(body) if body else None,  # aiohttp warns of large bytes
        ) as answer:
            content = await answer.read()
            headers = {
                key: value
                for key, value in answer.headers.items()
                if key.lower() not in {"transfer-encoding", "connection", "date", *self.hidden}
            }
        got = 0 if incoming.method == "HEAD" else len(content)
        seen = Passed(incoming.method, incoming.path_qs, len(body), got, answer.status)
        self.passed.append(seen)
        if action == "lose_answer":
            return _abort(incoming)
        if action == "cut_answer" and len(content) > 1:
            return await self._cut(incoming, answer.status, headers, content)
        return _whole(incoming, answer.status, headers, content)

    def _action(self, incoming: web.Request) -> Action | None:
        struck = (
            one.action
            for one in list(self.faults)
            if one.strikes(incoming.method, incoming.path_qs, self._dice)
        )
        return next(struck, None)

    async def _cut(
        self, incoming: web.Request, status: int, headers: dict[str, str], content: bytes
    ) -> web.Response:
        response = web.StreamResponse(status=status, headers=headers)
        await response.prepare(incoming)
        await response.write(content[: len(content) // 2])
        return _abort(incoming)


@contextmanager
def disturbing(upstream: str, seed: int = 0) -> Iterator[StoreProxy]:
    """Run a proxy; faults may be added and removed at any time."""
    proxy, loop = StoreProxy(upstream, seed), asyncio.new_event_loop()
    begun, ended = threading.Event(), asyncio.Event()

    async def serve() -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session:
            app = web.Application(client_max_size=2**30)

            async def handle(incoming: web.Request) -> web.StreamResponse:
                return await proxy.handle(incoming, session)

            app.router.add_route("*", "/{path:.*}", handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            proxy.url = f"http://{host}:{port}"
            begun.set()
            await ended.wait()
            await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert begun.wait(30), "the proxy did not start"
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(30)
        loop.close()


def _whole(
    incoming: web.Request, status: int, headers: dict[str, str], content: bytes
) -> web.Response:
    if incoming.method == "HEAD":  # the length is that of what would have come
        return web.Response(status=status, headers=headers)
    headers.pop("Content-Length", None)
    return web.Response(status=status, headers=headers, body=content)


def _abort(incoming: web.Request) -> web.Response:
    if incoming.transport is not None:
        incoming.transport.abort()
    return web.Response()
