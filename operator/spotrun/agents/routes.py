"""The requests of agents: their world, as a long poll, and their reports."""

import asyncio
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from http import HTTPStatus
from random import Random
from typing import NamedTuple, Protocol

from aiohttp import web

from spotrun.agents.long_poll import Board, WorkerKey, WorkerRef
from spotrun.agents.tokens import Bearer
from spotrun.http.errors import SERVER, Refused
from spotrun.http.rate_limit import Buckets, Clock, Rate
from spotrun.kube.backoff import Roll
from spotrun.kube.clock import utc_now
from spotrun.kube.resource import Key
from spotrun.wire import (
    REPORT_BYTES,
    Answer,
    OldWireError,
    Report,
    read_report,
    write_answer,
)

log = logging.getLogger(__name__)

_PATH = re.compile(
    r"/v1/jobs/(?P<namespace>[a-z0-9-]{1,63})/(?P<job>[a-z0-9.-]{1,253})"
    r"/workers/(?P<pod>[a-z0-9.-]{1,253})/(?P<what>world|report)"
)
_METHODS = {"world": "GET", "report": "POST"}
_SEEN_CHARACTERS = 64


class Agents(Protocol):
    """The store of agents' reports and signs of life."""

    def take_report(self, uid: str, worker_id: int, report: Report) -> bool:
        """Take a report; return whether the job must be reconciled now."""

    def touch(self, uid: str, worker_id: int) -> None:
        """Note a sign of life."""

    def hold(self, uid: str, worker_id: int) -> None:
        """Count a poll as a sign of life for as long as it is open."""

    def let_go(self, uid: str, worker_id: int) -> None:
        """Note that the poll was answered, or that its connection is gone."""

    def too_old(self, uid: str, worker_id: int) -> bool:
        """Note that the agent's wire version is no longer served; return whether that is new."""


class Authenticator(Protocol):
    """The checker of tokens."""

    async def check(self, token: str, *, namespace: str, pod: str, address: str) -> Bearer:
        """Return the pod of a token; raises Refused unless it belongs to exactly that pod."""


class Leadership(Protocol):
    """The answer to whether this replica is the leader, and which one is."""

    @property
    def leads(self) -> bool:
        """Whether this replica may answer now."""

    @property
    def address(self) -> str | None:
        """Return host:port where agents reach the leader; None if it is not known."""


@dataclass(frozen=True)
class RequestLimits:
    """Time limits and rate limits of requests."""

    poll_seconds: float = 20.0  # load balancers and NAT close connections that are silent longer
    body_seconds: float = 10.0
    requests: Rate = field(default_factory=lambda: Rate(per_second=20, burst=60))
    """The requests of one worker; a healthy one needs 2 per second."""
    flood_seconds: float = 1.0
    """An agent that asks too often gets its answer after this delay, and none of its other requests
    are served meanwhile. Without the delay it would ask again at once, thousands of times a
    second."""


OnAuthenticated = Callable[[web.RequestHandler, str], None]
Count = Callable[[str, int], None]


class _Route(NamedTuple):
    worker: WorkerKey
    what: str


class App:
    """Answers requests; the listener owns the connections."""

    def __init__(
        self,
        board: Board,
        agents: Agents,
        tokens: Authenticator,
        leadership: Leadership,
        wake: Callable[[Key], None],
        *,
        request_limits: RequestLimits = RequestLimits(),
        count: Count = lambda _what, _status: None,
        clock: Clock = time.monotonic,
        wall: Callable[[], datetime] = utc_now,
        roll: Roll | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.authenticate: OnAuthenticated = lambda _connection, _worker: None
        self._board = board
        self._agents = agents
        self._tokens = tokens
        self._leadership = leadership
        self._wake = wake
        self._request_limits = request_limits
        self._count = count
        self._roll = roll or Random().random  # noqa: S311 - jitter, not a secret
        self._requests = Buckets(request_limits.requests, clock, most=50_000)
        self._wall = wall
        self._sleep = sleep
        self._date = (0, "")  # of a second since the epoch, as HTTP writes it

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; every error is returned as a status and a sentence."""
        what = "other"
        try:
            route = _route(request)
            what = route.what
            response = _ok(await self._serve(request, route))
        except Refused as refused:
            response = _refusal(refused)
        response.headers["Date"] = self._now()
        self._count(what, response.status)
        return response

    def _now(self) -> str:
        """Return the Date header by our clock, with which agents convert our times to theirs."""
        now = self._wall()
        second = int(now.timestamp())
        if second != self._date[0]:
            self._date = (second, format_datetime(now, usegmt=True))
        return self._date[1]

    async def _serve(self, request: web.BaseRequest, route: _Route) -> Answer:
        self._check_leads()
        place = await self._authenticate(request, route.worker)
        self._agents.touch(place.job_uid, place.worker_id)
        if route.what == "report":
            await self._take_report(request, route.worker, place)
            answer = self._board.answer(route.worker)
        else:
            seen = request.query.get("seen", "")[:_SEEN_CHARACTERS]
            # Varied by a third, so that agents that came at the same moment come apart.
            seconds = self._request_limits.poll_seconds * (0.83 + 0.34 * self._roll())
            answer = await self._hold(route.worker, place, seen, seconds)
            self._check_leads()
        if answer is None:
            raise self._unknown(route.worker)
        return answer

    async def _hold(
        self, worker: WorkerKey, place: WorkerRef, seen: str, seconds: float
    ) -> Answer | None:
        """Wait for a changed answer; an open poll counts as a sign of life."""
        self._agents.hold(place.job_uid, place.worker_id)
        try:
            return await self._board.wait(worker, seen, seconds)
        finally:
            self._agents.let_go(place.job_uid, place.worker_id)

    async def _authenticate(self, request: web.BaseRequest, worker: WorkerKey) -> WorkerRef:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Refused(401, "send the pod's projected token: Authorization: Bearer <token>")
        bearer = await self._tokens.check(
            token,
            namespace=worker.namespace,
            pod=worker.pod,
            address=request.remote or "",
        )
        place = self._board.place(worker)
        if place is not None and place.pod_uid != bearer.pod_uid:
            raise Refused(403, f"the token belongs to an earlier pod of the name {worker.pod}")
        if place is not None:  # before it may have to wait, so that it holds few connections
            self.authenticate(request.protocol, bearer.pod_uid)
        await self._ask_not_too_often(bearer.pod_uid)
        if place is None:
            raise self._unknown(worker)
        return place

    async def _ask_not_too_often(self, pod_uid: str) -> None:
        requests = self._requests[pod_uid]
        if (wait := requests.wait_seconds()) > 0:
            seconds = self._request_limits.flood_seconds
            requests.drain(seconds)
            await self._sleep(seconds * (0.5 + self._roll()))  # not all at the same moment
            raise Refused(
                429,
                "this worker asks too often: wait before the next request",
                retry_after_seconds=wait,
            )
        requests.take()

    async def _take_report(
        self, request: web.BaseRequest, worker: WorkerKey, place: WorkerRef
    ) -> None:
        body = await _body(request, self._request_limits.body_seconds)
        try:
            report = read_report(body)
        except OldWireError as error:
            if self._agents.too_old(place.job_uid, place.worker_id):
                self._wake(Key(worker.namespace, worker.job))
            raise Refused(400, str(error)) from error
        except ValueError as error:
            raise Refused(400, str(error)) from error
        if self._agents.take_report(place.job_uid, place.worker_id, report):
            self._wake(Key(worker.namespace, worker.job))

    def _check_leads(self) -> None:
        if self._leadership.leads:
            return
        leader = self._leadership.address
        if leader is None:
            message = "no replica of the operator is the leader at present"
            raise Refused(503, message, retry_after_seconds=1, close=True)
        raise Refused(421, f"the leader is at {leader}", leader=leader, close=True)

    def _unknown(self, worker: WorkerKey) -> Refused:
        job = Key(worker.namespace, worker.job)
        if self._board.is_unseen(job):
            message = "the operator's leader is new, and has not read the job yet"
            return Refused(503, message, retry_after_seconds=1)
        if self._board.is_gone(job):
            return Refused(410, f"the job {worker.namespace}/{worker.job} was deleted")
        message = f"{worker.pod} is no worker of a job {worker.namespace}/{worker.job}"
        return Refused(404, message)


def _route(request: web.BaseRequest) -> _Route:
    matched = _PATH.fullmatch(request.rel_url.raw_path)
    if matched is None:
        raise Refused(404, "no such path: agents use paths below /v1/jobs/", close=True)
    method = _METHODS[matched["what"]]
    if request.method != method:
        raise Refused(405, f"use the method {method} for {matched['what']}", close=True)
    worker = WorkerKey(matched["namespace"], matched["job"], matched["pod"])
    return _Route(worker, matched["what"])


async def _body(request: web.BaseRequest, timeout_seconds: float) -> bytes:
    """Return the whole body, if it is small and comes in time."""
    too_big = Refused(413, f"a report has at most {REPORT_BYTES} bytes", close=True)
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_seconds):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > REPORT_BYTES:
                    raise too_big
    except TimeoutError as error:
        raise Refused(408, "the report did not come in time", close=True) from error
    except web.RequestPayloadError as error:
        raise Refused(400, f"the report cannot be read: {error}", close=True) from error
    return bytes(body)


def _ok(answer: Answer) -> web.Response:
    body = write_answer(answer)
    return web.Response(body=body, content_type="application/json", headers=SERVER)


def _refusal(refused: Refused) -> web.Response:
    content = {"message": refused.message}
    if refused.leader is not None:
        content["leader"] = refused.leader
    response = web.Response(
        status=refused.status,
        # aiohttp has no reason phrase for some of them.
        reason=HTTPStatus(refused.status).phrase,
        body=json.dumps(content).encode(),
        content_type="application/json",
        headers={**refused.headers, **SERVER},
    )
    if refused.close:
        response.force_close()
    return response
