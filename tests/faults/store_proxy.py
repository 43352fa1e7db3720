"""A reverse proxy before an S3 server that lets requests fail as told, in a thread of its own."""

import io
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import aiohttp
from aiohttp import web
from yarl import URL

from tests.faults.reverse import before, whole

Action = Literal[
    "slow_down", "fail", "reset", "lose_answer", "cut_answer", "expire", "skew", "stale"
]

FOR_EVER = -1
_XML = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{}</Code><Message>no</Message></Error>'
_ANSWERS: dict[Action, tuple[int, str]] = {
    "slow_down": (503, "SlowDown"),
    "fail": (500, "InternalError"),
    "expire": (400, "ExpiredToken"),
    "skew": (403, "RequestTimeTooSkewed"),
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
    first_answers: dict[str, bytes] = field(default_factory=dict)  # to what is read, "stale" ones

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
            URL(self.upstream + incoming.raw_path, encoded=True),  # as it was signed
            headers=incoming.headers,
            skip_auto_headers=("Content-Type", "Accept-Encoding"),
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
        if action == "stale":
            content = self.first_answers.setdefault(incoming.path_qs, content)
        if action == "lose_answer":
            return _abort(incoming)
        if action == "cut_answer" and len(content) > 1:
            return await self._cut(incoming, answer.status, headers, content)
        return whole(incoming, answer.status, headers, content)

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
    proxy = StoreProxy(upstream, seed)
    with before(proxy.handle) as proxy.url:
        yield proxy


def _abort(incoming: web.Request) -> web.Response:
    if incoming.transport is not None:
        incoming.transport.abort()
    return web.Response()
