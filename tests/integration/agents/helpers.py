"""A server as the operator runs it, agents that call it, and pods with real tokens."""

import asyncio
import contextlib
import datetime
import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp
import msgspec

from spotrun.agents.answers import Peer
from spotrun.agents.long_poll import Board, WorkerKey
from spotrun.agents.routes import Authenticator, RequestLimits
from spotrun.agents.tokens import Bearer
from spotrun.api.names import SERVER_NAME, TOKEN_AUDIENCE
from spotrun.http.certificates import Pair, make_authority, sign_serving
from spotrun.http.connection_limits import Limits
from spotrun.http.errors import Refused
from spotrun.http.rate_limit import Rate
from spotrun.http.tls import Identity
from spotrun.kube.resource import Key, Meta, Resource
from spotrun.kube.rest.client import Client
from spotrun.kube.rest.connector import Connector
from spotrun.metrics.registry import Meter
from spotrun.runtime.agent_server import Server, Settings
from spotrun.wire import Report
from tests.support.jobs.published_jobs import KEY, worker

NAMESPACES = Resource("", "v1", "namespaces")
PODS = Resource("", "v1", "pods")
ACCOUNTS = Resource("", "v1", "serviceaccounts")
HOST = "127.0.0.1"
TOKEN = "pod-uid-0"  # noqa: S105 - what the stub takes for one
POLL_SECONDS = 30.0  # longer than any test waits for an answer


class Any_(msgspec.Struct, frozen=True):  # noqa: N801 - any object
    metadata: Meta = Meta()


class _TokenStatus(msgspec.Struct, frozen=True):
    token: str


class _Token(msgspec.Struct, frozen=True):
    status: _TokenStatus


@dataclass
class Pods:
    """Pods that nobody runs, which is enough for tokens to be bound to them."""

    client: Client
    namespace: str

    async def make_account(self) -> None:
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trainer"}}
        await self.client.create(ACCOUNTS, body, Any_, namespace=self.namespace)

    async def make(self, name: str) -> Peer:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "serviceAccountName": "trainer",
                "automountServiceAccountToken": False,
                "containers": [{"name": "trainer", "image": "image"}],
            },
        }
        made = await self.client.create(PODS, body, Any_, namespace=self.namespace)
        return Peer(name, made.metadata.uid, "10.0.0.1")

    async def delete(self, peer: Peer) -> None:
        await self.client.delete(
            PODS, peer.pod, uid=peer.uid, namespace=self.namespace, grace_seconds=0
        )

    async def token(self, peer: Peer | None, audience: str = TOKEN_AUDIENCE) -> str:
        """Return the token that the kubelet would project into that pod."""
        spec: dict[str, Any] = {"audiences": [audience], "expirationSeconds": 600}
        if peer is not None:
            reference = {"apiVersion": "v1", "kind": "Pod", "name": peer.pod, "uid": peer.uid}
            spec["boundObjectRef"] = reference
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        made = await self.client.create(
            ACCOUNTS, body, _Token, namespace=self.namespace, name="trainer", subresource="token"
        )
        return made.status.token


class TokensByName:
    """Every token is the UID of its pod; for tests that are about something else."""

    async def check(self, token: str, *, namespace: str, pod: str, address: str) -> Bearer:
        del address
        if not token.startswith("pod-uid-"):
            raise Refused(401, "this is not a token")
        return Bearer(namespace, pod, token)


@dataclass
class Leadership:
    leads: bool = True
    address: str | None = None


@dataclass
class Heard:
    """A record of what agents said."""

    reports: list[tuple[str, int, Report]] = field(default_factory=list)
    touched: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    woken: list[Key] = field(default_factory=list)
    is_news: bool = True

    def take_report(self, uid: str, worker_id: int, report: Report) -> bool:
        self.reports.append((uid, worker_id, report))
        return self.is_news

    def touch(self, uid: str, worker_id: int) -> None:
        del uid
        self.touched.append(worker_id)

    def hold(self, uid: str, worker_id: int) -> None:
        del uid
        self.held.append(worker_id)

    def let_go(self, uid: str, worker_id: int) -> None:
        del uid
        self.held.remove(worker_id)

    def too_old(self, uid: str, worker_id: int) -> bool:
        del uid, worker_id
        return True


class Stored:
    """A store of certificates; change `identity` to renew them."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity

    async def load(self) -> Identity:
        return self.identity


def make_identity(authority: Pair | None = None, *others: Pair) -> Identity:
    now = datetime.datetime.now(datetime.UTC)
    authority = authority or make_authority(now)
    bundle = b"".join(pair.certificate for pair in (authority, *others)).decode()
    return Identity(bundle, sign_serving(authority, now), KEY)


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - what is waited for says nothing when it happens
            await asyncio.sleep(0.01)


@dataclass
class Replica:
    """One running server, and what is around it."""

    server: Server
    board: Board
    heard: Heard
    leadership: Leadership
    stored: Stored
    meter: Meter

    @property
    def address(self) -> str:
        return f"{HOST}:{self.server.port}"

    async def until(self, *, connections: int) -> None:
        await eventually(lambda: self.server.num_connections == connections)

    async def until_polled(self) -> None:
        await eventually(lambda: self.board.num_polls > 0)


GENEROUS = Limits(arrivals_per_address=Rate(per_second=1_000, burst=1_000))


@contextlib.asynccontextmanager
async def replica(
    tokens: Authenticator | None = None,
    *,
    limits: Limits = GENEROUS,
    request_limits: RequestLimits | None = None,
    identity: Identity | None = None,
) -> AsyncIterator[Replica]:
    identity = identity or make_identity()
    board, heard, leadership, stored = Board(KEY), Heard(), Leadership(), Stored(identity)
    meter = Meter(lambda: board.jobs, lambda: leadership.leads)
    settings = Settings(
        host=HOST,
        port=0,
        limits=limits,
        request_limits=request_limits or RequestLimits(poll_seconds=POLL_SECONDS),
        step_down_seconds=0.2,
    )
    async with Server(
        settings,
        board,
        heard,
        tokens or TokensByName(),
        leadership,
        source=stored,
        identity=identity,
        wake=heard.woken.append,
        meter=meter,
    ) as server:
        yield Replica(server, board, heard, leadership, stored, meter)


@dataclass(frozen=True)
class Said:
    """An answer."""

    status: int
    content: dict[str, Any]
    headers: dict[str, str]

    @property
    def world_number(self) -> int:
        return int(self.content["world"]["number"])


class Caller:
    """An agent's HTTP client: the CA pinned, the name fixed."""

    def __init__(self, replica: Replica, bundle: str | None = None) -> None:
        self._replica = replica
        self._tls = ssl.create_default_context(cadata=bundle or replica.server.bundle)

    async def __aenter__(self) -> Self:
        connector = Connector(self._tls)
        self._session = aiohttp.ClientSession(connector=connector)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def poll(self, worker: WorkerKey, token: str | None, seen: str = "") -> Said:
        return await self.send("GET", path(worker, "world", seen), token)

    async def report(self, worker: WorkerKey, token: str | None, report: Any) -> Said:
        body = report if isinstance(report, bytes) else json.dumps(report).encode()
        return await self.send("POST", path(worker, "report"), token, data=body)

    async def send(self, method: str, where: str, token: str | None, **more: Any) -> Said:
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        headers |= more.pop("headers", {})
        async with self._session.request(
            method,
            f"https://{self._replica.address}{where}",
            headers=headers,
            server_hostname=SERVER_NAME,
            timeout=aiohttp.ClientTimeout(total=20),
            **more,
        ) as response:
            content = json.loads(await response.read())
            return Said(response.status, content, dict(response.headers))


async def is_served(there: Replica) -> None:
    """A healthy agent gets its answers, whatever others do."""
    async with Caller(there) as caller:
        assert (await caller.poll(worker(1), "pod-uid-1")).status == 200
        assert (await caller.report(worker(1), "pod-uid-1", {"wire": 1})).status == 200


def path(worker: WorkerKey, what: str, seen: str = "") -> str:
    query = f"?seen={seen}" if seen else ""
    return f"/v1/jobs/{worker.namespace}/{worker.job}/workers/{worker.pod}/{what}{query}"


@contextlib.asynccontextmanager
async def raw(
    replica: Replica, *, local: str = HOST
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A TLS connection on which anything may be written."""
    tls = ssl.create_default_context(cadata=replica.server.bundle)
    reader, writer = await asyncio.open_connection(
        HOST,
        replica.server.port,
        ssl=tls,
        server_hostname=str(SERVER_NAME),
        local_addr=(local, 0),
    )
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def rest(reader: asyncio.StreamReader, seconds: float = 20.0) -> bytes:
    """Return what comes until the server hangs up; raises TimeoutError if it does not."""
    async with asyncio.timeout(seconds):
        try:
            return await reader.read()
        except ConnectionError:
            return b""
