"""The page's server: files, streams of news, and logs, behind the door."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from importlib.resources import files

import msgspec
from aiohttp import web

from spotrun.cli.cluster.session import Cluster
from spotrun.cli.cluster.troubles import in_words
from spotrun.cli.jobs.logs.following import select
from spotrun.cli.jobs.logs.lines import stamped
from spotrun.cli.jobs.logs.reading import log_of
from spotrun.cli.jobs.reading import pods_of
from spotrun.cli.page.door import COOKIE, HEADERS, MOST_WRONG_TICKETS, Asked, Door
from spotrun.cli.page.following import FleetFollower, JobFollower
from spotrun.cli.page.gate import Gate
from spotrun.cli.page.news import JobNews
from spotrun.cli.page.views.fleet import Fleet, difference
from spotrun.kube.errors import KubeError
from spotrun.kube.resource import Key

_PAUSE_SECONDS = 0.1
"""News within this time are one message: a person sees no difference, and a burst is cheap."""
_BEAT_SECONDS = 5.0
_MOST_STREAMS = 32
_MOST_OPEN_JOBS = 8
_MOST_LINES = 500
_MOST_NAME = 253
_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_Message = Callable[[], bytes | None]


def assets() -> dict[str, bytes]:
    """Return the files of the page by their names."""
    folder = files("spotrun.cli.page").joinpath("assets")
    return {
        one.name: one.read_bytes()
        for one in folder.iterdir()
        if any(one.name.endswith(ending) for ending in _TYPES)
    }


class Page:
    """The page of one user behind a door, or of a cluster behind a gate."""

    def __init__(
        self,
        cluster: Cluster,
        fleet: FleetFollower,
        door: Door | Gate,
        *,
        most_streams: int = _MOST_STREAMS,
        shows_logs: bool = True,
    ) -> None:
        self._cluster, self._fleet, self._door = cluster, fleet, door
        self._most_streams, self._shows_logs = most_streams, shows_logs
        self._assets = assets()
        self._streams = 0
        self._wrong_tickets = 0
        self._is_entered = False
        self._open = _OpenJobs(cluster, fleet)

    @asynccontextmanager
    async def application(self) -> AsyncIterator[web.Application]:
        """Yield the application; closes the opened jobs afterwards."""
        app = web.Application(middlewares=[self._guarded], client_max_size=1)
        root = self._door.root
        if isinstance(self._door, Door):
            app.router.add_get("/enter/{ticket}", partial(self._enter, self._door))
        app.router.add_get(root, self._file)
        app.router.add_get(f"{root}{{name:[a-z.]+}}", self._file)
        app.router.add_get(f"{root}api/fleet", self._fleet_stream)
        app.router.add_get(f"{root}api/jobs/{{namespace}}/{{name}}", self._job_stream)
        app.router.add_get(f"{root}api/jobs/{{namespace}}/{{name}}/log", self._log)
        async with self._open:
            yield app

    @web.middleware
    async def _guarded(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        refusal = self._door.refusal(
            Asked(
                request.method,
                request.path,
                request.headers,
                request.cookies.get(COOKIE, ""),
                request.can_read_body,
            )
        )
        if refusal is not None:
            return _text(refusal.status, refusal.text)
        try:
            return await handler(request)
        except web.HTTPException as error:
            return _text(HTTPStatus(error.status), error.reason)

    async def _enter(self, door: Door, request: web.Request) -> web.Response:
        """Exchange the ticket for a cookie; the page that is opened next sends it along."""
        if self._wrong_tickets >= MOST_WRONG_TICKETS:
            return _text(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too many wrong tickets: start `kubectl tjob ui` again",
            )
        if not door.is_ticket(request.match_info["ticket"]):
            self._wrong_tickets += 1
            return _text(HTTPStatus.FORBIDDEN, "this is not the address that was printed")
        if self._is_entered:
            return _text(
                HTTPStatus.GONE,
                "this address was used already, and works only once. If you did not use it, end "
                "`kubectl tjob ui` and start it again",
            )
        self._is_entered = True
        # A page, not a redirect: after a redirect that another program's page started, a browser
        # sends no SameSite=Strict cookies.
        to = door.root
        # It names its icon: else a browser may ask for /favicon.ico, which is refused.
        answer = web.Response(
            text=f'<!doctype html><link rel="icon" href="{to}icon.svg">'
            f'<meta http-equiv="refresh" content="0;url={to}">',
            content_type="text/html",
            headers=HEADERS,
        )
        answer.set_cookie(COOKIE, door.session, path=door.root, httponly=True, samesite="Strict")
        return answer

    async def _file(self, request: web.Request) -> web.Response:
        name = request.match_info.get("name", "index.html")
        if name not in self._assets:
            raise web.HTTPNotFound
        kind = _TYPES[name[name.rindex(".") :]]
        return web.Response(
            body=self._assets[name], content_type=kind, charset="utf-8", headers=HEADERS
        )

    async def _fleet_stream(self, request: web.Request) -> web.StreamResponse:
        sent = Fleet()
        is_first = True

        def message() -> bytes | None:
            nonlocal sent, is_first
            now = self._fleet.now()
            changed = difference(sent, now)
            sent = now
            if not changed and not is_first:
                return None
            whole = {"isWhole": True} if is_first else {}
            is_first = False
            return msgspec.json.encode({**whole, **changed, "now": self._now()})

        return await self._stream(request, message)

    async def _job_stream(self, request: web.Request) -> web.StreamResponse:
        follower = await self._open.at(self._key(request))
        follower.viewers += 1
        try:
            return await self._stream(request, JobNews(follower, self._now).message)
        finally:
            follower.viewers -= 1

    async def _log(self, request: web.Request) -> web.Response:
        """Answer with the last lines of rank 0, read with the user's rights."""
        key = self._key(request)
        job = self._fleet.job(key)
        assert job is not None
        if not self._shows_logs:
            return _json({"lines": [], "why": "this page shows no logs: `kubectl tjob logs` does"})
        try:
            pods = await pods_of(_in_namespace(self._cluster, key.namespace), key.name)
            chosen = select(job, pods, None, is_all=False)
            lines = []
            for pod in chosen.values():
                lines = await log_of(self._cluster, pod, _MOST_LINES)
        except KubeError as error:
            return _json({"lines": [], "why": in_words(error)})
        why = "" if chosen else "no worker has a pod, so there are no logs"
        return _json(
            {
                "lines": [{"at": one.time, "text": one.text} for one in stamped("", lines)],
                "rank": next(iter(chosen), None),
                "why": why,
            }
        )

    def _key(self, request: web.Request) -> Key:
        key = Key(request.match_info["namespace"], request.match_info["name"])
        if max(map(len, key)) > _MOST_NAME or self._fleet.job(key) is None:
            raise web.HTTPNotFound(reason="there is no such job, or you may not see it")
        return key

    async def _stream(self, request: web.Request, message: _Message) -> web.StreamResponse:
        """Send news as they come until the browser leaves: the newest state, never a backlog."""
        if self._streams >= self._most_streams:
            return _text(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open: close some")
        self._streams += 1
        try:
            response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
            await response.prepare(request)
            async with self._fleet.bell.heard() as news:
                while True:
                    news.clear()
                    found = message()
                    line = b": nothing new\n\n" if found is None else b"data: %s\n\n" % found
                    await response.write(line)
                    with suppress(TimeoutError):
                        await asyncio.wait_for(news.wait(), _BEAT_SECONDS)
                    await asyncio.sleep(_PAUSE_SECONDS)
        except ConnectionError:
            return response
        finally:
            self._streams -= 1

    def _now(self) -> float:
        return self._cluster.client.clock.now().timestamp()


class _OpenJobs:
    """The jobs whose pods and Events are followed: those opened last."""

    def __init__(self, cluster: Cluster, fleet: FleetFollower) -> None:
        self._cluster, self._fleet = cluster, fleet
        self._jobs: OrderedDict[Key, tuple[JobFollower, AsyncExitStack]] = OrderedDict()
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        for _follower, stack in self._jobs.values():
            await stack.aclose()

    async def at(self, key: Key) -> JobFollower:
        """Return the follower of a job, started if needed; it knows what happened since."""
        async with self._lock:
            if key not in self._jobs:
                unseen = [one for one, (it, _stack) in self._jobs.items() if not it.viewers]
                for oldest in unseen[: max(0, len(self._jobs) + 1 - _MOST_OPEN_JOBS)]:
                    await self._jobs.pop(oldest)[1].aclose()
                follower = JobFollower(
                    _in_namespace(self._cluster, key.namespace), self._fleet, key
                )
                stack = AsyncExitStack()
                await stack.enter_async_context(follower.followed())
                self._jobs[key] = (follower, stack)
            self._jobs.move_to_end(key)
            return self._jobs[key][0]


def _in_namespace(cluster: Cluster, namespace: str) -> Cluster:
    return replace(cluster, namespace=namespace)


def _text(status: HTTPStatus, text: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers=HEADERS)


def _json(body: object) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(body), content_type="application/json", headers=HEADERS
    )
