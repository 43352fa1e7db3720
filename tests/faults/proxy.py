"""A reverse proxy before the API server that lets things go wrong as told.

    client --http--> FaultProxy --https--> kube-apiserver

The `Authorization` header passes through. Every request is logged with its outcome: that is also
how tests count writes and wait for something to have happened.
"""

import asyncio
import json
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
from aiohttp import web

from spotrun.kube.rest.connector import Connector
from tests.faults.rules import STREAM_ACTIONS, Rule, failure
from tests.faults.stream import Stream

WRITES = frozenset({"create", "update", "patch", "delete"})

_PASSED_BACK = ("content-type", "retry-after", "warning")
_NOT_PASSED_ON = ("host", "content-length", "connection", "accept-encoding")


@dataclass
class Request:
    """One request that came by; `status` and `fault` say what became of it."""

    verb: str
    path: str
    query: dict[str, str]
    content_type: str
    body: Any
    status: int | None = None  # None: not answered yet; 0: answered by nobody
    fault: str | None = None


class FaultProxy:
    """A proxy that makes faults; used as `async with FaultProxy(server, tls) as proxy`."""

    def __init__(
        self,
        upstream: str,
        tls: ssl.SSLContext,
        *,
        on_crash: Callable[[], None] = lambda: None,
        token: str | None = None,
    ) -> None:
        """Prepare; `token` is what requests without an `Authorization` of their own show."""
        self.log: list[Request] = []
        self.on_crash = on_crash
        self.read_from: str | None = None  # another API server, for what changes nothing
        self._upstream = upstream
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._tls = tls
        self._rules: list[Rule] = []
        self._streams: set[Stream] = set()
        self._remembered: dict[str, bytes] = {}
        self._news = asyncio.Condition()

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=Connector(self._tls),
            auto_decompress=False,
            headers=self._headers,
            # Large answers would come compressed, and be passed back without saying so.
            skip_auto_headers=("Accept-Encoding",),
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=2**21,
        )
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        for rule in self._rules:
            rule.gate.set()
        await self._runner.cleanup()
        await self._session.close()

    def inject(self, rule: Rule) -> Rule:
        """Let something go wrong from now on."""
        self._rules.append(rule)
        self._poke()
        return rule

    def heal(self, rule: Rule) -> None:
        """Take a fault away; what it holds goes on."""
        self._rules.remove(rule)
        rule.gate.set()

    def writes(self) -> list[Request]:
        """The requests that could change something."""
        return [request for request in self.log if request.verb in WRITES]

    async def seen(
        self, verb: str, path: str = "", *, times: int = 1, timeout_seconds: float = 20
    ) -> None:
        """Wait until so many such requests (in all) have been answered or begun to stream."""

        def answered(request: Request) -> bool:
            named = re.fullmatch(verb, request.verb) and path in request.path
            return bool(named) and request.status is not None

        def enough() -> bool:
            return sum(map(answered, self.log)) >= times

        async with asyncio.timeout(timeout_seconds), self._news:
            await self._news.wait_for(enough)

    async def remember(
        self, path: str, edit: Callable[[Any], None] = lambda _: None, **params: str
    ) -> None:
        """Keep the present answer to a list, perhaps edited, for `stale_list` to give it later."""
        async with self._session.get(self._upstream + path, params=params) as answer:
            content = await answer.json()
        edit(content)
        self._remembered[path] = json.dumps(content).encode()

    async def _handle(self, incoming: web.Request) -> web.StreamResponse:
        raw = await incoming.read()
        verb = _verb(incoming)
        request = Request(
            verb,
            incoming.path,
            dict(incoming.query),
            incoming.headers.get("Content-Type", ""),
            _json(raw),
        )
        self.log.append(request)
        rule = self._struck(request)
        if rule is not None:
            request.fault = rule.action
            early = await self._before(rule, incoming)
            if early is not None:
                await self._answered(request, rule.status if rule.action == "reply" else 0)
                return early
        try:
            return await self._forward(incoming, raw, request, rule)
        except (ConnectionError, aiohttp.ClientError):
            return _abort(incoming)  # the API server has been killed

    def _struck(self, request: Request) -> Rule | None:
        for rule in self._rules:
            concerned = rule.concerns(request.verb, request.path) and (
                rule.query is None or rule.query(request.query)
            )
            if rule.action not in STREAM_ACTIONS and concerned and rule.strikes(request.body):
                return rule
        return None

    async def _before(self, rule: Rule, incoming: web.Request) -> web.Response | None:
        """Do what happens instead of, or before, passing a request on."""
        if rule.action == "reply":
            return _refuse(rule)
        if rule.action == "drop":
            return _abort(incoming)
        if rule.action == "crash_before":
            self.on_crash()
            return _abort(incoming)
        if rule.action == "stale_list":
            kept = self._remembered[incoming.path]
            return web.Response(body=kept, content_type="application/json")
        if rule.action == "hold":
            await rule.gate.wait()
        return None

    async def _forward(
        self, incoming: web.Request, raw: bytes, request: Request, rule: Rule | None
    ) -> web.StreamResponse:
        headers = {k: v for k, v in incoming.headers.items() if k.lower() not in _NOT_PASSED_ON}
        is_read = self.read_from is not None and request.verb not in WRITES
        upstream = self.read_from if is_read else self._upstream
        async with self._session.request(
            incoming.method, f"{upstream}{incoming.path_qs}", headers=headers, data=raw or None
        ) as answer:
            await self._answered(request, answer.status)
            if request.verb == "watch" and answer.status == 200:
                return await self._stream(incoming, answer, request)
            body = await answer.read()
        if rule is not None and rule.action == "crash_after":
            self.on_crash()
        if rule is not None and rule.action in {"lose_answer", "crash_after"}:
            return _abort(incoming)
        if rule is not None and rule.action == "replace_answer":
            return _refuse(rule)
        back = {k: v for k, v in answer.headers.items() if k.lower() in _PASSED_BACK}
        return web.Response(body=body, status=answer.status, headers=back)

    async def _stream(
        self, incoming: web.Request, answer: aiohttp.ClientResponse, request: Request
    ) -> web.StreamResponse:
        def rules() -> list[Rule]:
            return [
                rule
                for rule in self._rules
                if rule.action in STREAM_ACTIONS and rule.concerns("watch", request.path)
            ]

        stream = Stream(incoming, answer, rules)
        self._streams.add(stream)
        try:
            return await stream.run()
        finally:
            self._streams.discard(stream)
            if answer.connection is not None and answer.connection.transport is not None:
                answer.connection.transport.abort()  # a TLS goodbye would outlive the test

    async def _answered(self, request: Request, status: int) -> None:
        request.status = status
        async with self._news:
            self._news.notify_all()

    def _poke(self) -> None:
        for stream in self._streams:
            stream.poke()


def _verb(request: web.Request) -> str:
    if request.method != "GET":
        verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
        return verbs.get(request.method, request.method.lower())
    if request.query.get("watch", "").lower() in {"true", "1"}:
        return "watch"
    parts = request.path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    return "list" if len(rest) == 1 else "get"


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return None


def _refuse(rule: Rule) -> web.Response:
    headers = {"Retry-After": str(rule.retry_after)} if rule.retry_after is not None else {}
    status = failure(rule.status, rule.retry_after)
    return web.json_response(status, status=rule.status, headers=headers)


def _abort(incoming: web.Request) -> web.Response:
    if incoming.transport is not None:
        incoming.transport.abort()
    return web.Response()
