"""Attackers: tenants with few rights, and workers that say what they like."""

import asyncio
import contextlib
import http.client
import json
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from devcluster.client import Manifest, at
from devcluster.cluster import Cluster
from spotrun.api import names
from tests.integration.agents.helpers import HOST
from tests.integration.asking import Answer, ask
from tests.integration.manifests.helpers import apply, namespace, until
from tests.support.cluster.operator_world import World

JOBS = "apis/spotrun.dev/v1alpha1"
ALL_VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"]
WRITES_JOBS = {"apiGroups": ["spotrun.dev"], "resources": ["trainingjobs"], "verbs": ALL_VERBS}
SCALES_JOBS = {
    "apiGroups": ["spotrun.dev"],
    "resources": ["trainingjobs/scale"],
    "verbs": ["update", "patch"],
}
MAKES_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ALL_VERBS}
KEPT = 2_000  # of file descriptors: for pytest, and for the server's side of who is let in
MOST = 10_000


@dataclass(frozen=True)
class Tenant:
    """A service account in a namespace, with its own token: nobody is impersonated."""

    address: str
    tls: ssl.SSLContext
    namespace: str
    token: str

    def try_to(
        self,
        verb: str,
        path: str,
        body: Manifest | None = None,
        *,
        kind: str = "json",
        **headers: str,
    ) -> Answer:
        """Ask the API server for something."""
        connection = http.client.HTTPSConnection(self.address, context=self.tls, timeout=30)
        with contextlib.closing(connection):
            said = {"Authorization": f"Bearer {self.token}", **headers}
            return ask(connection, verb, f"/{path}", body, kind=kind, **said)

    def jobs(self, name: str = "", query: str = "fieldValidation=Strict") -> str:
        """The path of the jobs of its namespace, or of one."""
        where = f"{JOBS}/namespaces/{self.namespace}/trainingjobs"
        return f"{where}/{name}?{query}" if name else f"{where}?{query}"

    def showing(self, token: str) -> "Tenant":
        """The same with another token."""
        return replace(self, token=token)


def make_tenant(cluster: Cluster, where: str, *rules: Manifest) -> Tenant:
    """A tenant of a namespace with these rights there; the guard stands in it."""
    api = "rbac.authorization.k8s.io"
    meta = {"name": "tenant", "namespace": where}
    account = {"kind": "ServiceAccount", "name": "tenant", "namespace": where}
    apply(
        cluster,
        namespace(where, guard="attacks"),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": meta, "rules": list(rules)},
        {
            "apiVersion": f"{api}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": api, "kind": "Role", "name": "tenant"},
            "subjects": [account],
        },
    )
    token = cluster.kubectl("-n", where, "create", "token", "tenant").stdout.strip()
    address = urlsplit(cluster.admin.server)
    tls = ssl.create_default_context(cafile=str(cluster.admin.ca_file))
    tenant = Tenant(address.netloc, tls, where, token)
    until(lambda: tenant.try_to("GET", tenant.jobs()).status == 200, "the tenant's rights")
    return tenant


@dataclass(frozen=True)
class Told:
    """The operator's answer to an agent."""

    status: int
    message: str


HUNG_UP = Told(0, "hung up on")
"""A client that goes on sending when the answer is given may not come to read it."""


async def token_of(world: World, pod: Manifest, audience: str = names.TOKEN_AUDIENCE) -> str:
    """Return the token that the kubelet projects into a pod."""
    meta = pod["metadata"]
    reference = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": [audience], "boundObjectRef": reference},
    }
    path = at("serviceaccounts", world.namespace, "default", "token")
    answer = await world.kube.create(path, request)
    return str(answer["status"]["token"])


def environment(pod: Manifest) -> Mapping[str, str]:
    """Return the variables that the container that trains is given in plain text."""
    container = pod["spec"]["containers"][0]
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


@dataclass
class Traitor:
    """A worker whose agent was taken over: its token is good, and it says what it likes."""

    session: aiohttp.ClientSession
    url: str

    async def report(self, body: Any) -> Told:
        """Send a report of any bytes, or of any JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            async with self.session.post(
                f"{self.url}/report", data=BytesIO(content), server_hostname=names.SERVER_NAME
            ) as response:
                said = json.loads(await response.read())
                return Told(response.status, said.get("message", ""))
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
            return HUNG_UP


@contextlib.asynccontextmanager
async def taken_over(world: World, pod: Manifest) -> Any:
    """The agent of a pod, in an attacker's hands."""
    told = environment(pod)
    tls = ssl.create_default_context(cadata=told[names.ENV_CA])
    where = f"{told[names.ENV_NAMESPACE]}/{told[names.ENV_JOB]}/workers/{told[names.ENV_WORKER]}"
    headers = {"Authorization": f"Bearer {await token_of(world, pod)}"}
    connector = aiohttp.TCPConnector(ssl=tls)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        yield Traitor(session, f"https://{told[names.ENV_SERVER]}/v1/jobs/{where}")


@dataclass
class Crowd:
    """Connections that say nothing, as many as this process may open."""

    port: int
    sockets: list[socket.socket] = field(default_factory=list)

    async def come(self, number: int, addresses: list[str]) -> None:
        loop = asyncio.get_running_loop()
        for count in range(number):
            one = socket.socket()
            self.sockets.append(one)
            one.setblocking(False)
            one.bind((addresses[count % len(addresses)], 0))
            with contextlib.suppress(OSError):
                await loop.sock_connect(one, (HOST, self.port))

    def leave(self) -> None:
        for one in self.sockets:
            one.close()
        self.sockets.clear()


@contextlib.asynccontextmanager
async def crowd(port: int) -> AsyncIterator[Crowd]:
    crowd = Crowd(port)
    try:
        yield crowd
    finally:
        crowd.leave()


def most_connections() -> int:
    """Ten thousand where the limit of file descriptors lets them: 20,000 is enough."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return MOST
    return max(min(MOST, (hard - KEPT) * 10 // 17), 100)  # up to seven in ten are let in
