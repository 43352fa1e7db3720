"""Admission webhooks of others, as service meshes and policy engines install them."""

import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from devcluster.client import ApiError, Manifest, at
from devcluster.cluster import Cluster
from tests.support.cluster.operator_world import World

Patch = list[dict[str, Any]]

_GROUP = "admissionregistration.k8s.io/v1"
_NOBODY = "https://127.0.0.1:1/"


@asynccontextmanager
async def mutating(world: World, change: Callable[[Manifest], Patch]) -> AsyncIterator[None]:
    """Have every pod that is made in the world's namespace changed, as a sidecar injector does."""

    def changed(pod: Manifest) -> Manifest:
        patch = base64.b64encode(json.dumps(change(pod)).encode()).decode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": patch}

    async with _reviewing(world, "mutating", changed):
        await world.until(lambda: _is_changed(world))
        yield


@asynccontextmanager
async def denying(world: World, message: str) -> AsyncIterator[None]:
    """Have every pod that is made in the world's namespace refused, as policy engines do."""

    def refused(_: Manifest) -> Manifest:
        return {"allowed": False, "status": {"message": message}}

    async with _reviewing(world, "validating", refused):
        await world.until(lambda: _is_not_made(world, 400))
        yield


@asynccontextmanager
async def _reviewing(
    world: World, kind: str, judge: Callable[[Manifest], Manifest]
) -> AsyncIterator[None]:
    """Have a server of ours judge every pod that is made."""

    async def review(request: web.Request) -> web.Response:
        asked = (await request.json())["request"]
        answer = {"uid": asked["uid"], **judge(asked["object"])}
        return web.json_response({**await request.json(), "response": answer})

    app = web.Application()
    app.router.add_post("/", review)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        host = world.cluster.block.host
        site = web.TCPSite(runner, host, 0, ssl_context=_tls(world.cluster))
        await site.start()
        port = runner.addresses[0][1]
        async with _installed(world, kind, f"https://{host}:{port}/", "CREATE"):
            yield
    finally:
        await runner.cleanup()


@asynccontextmanager
async def down(world: World, operation: str = "UPDATE") -> AsyncIterator[None]:
    """Have every change of the namespace's pods fail: who is to review it does not answer.

    There is a pod already. What kubelets say of pods is let through. Or have creations fail.
    """
    is_refused = _is_refused if operation == "UPDATE" else _is_not_made
    async with _installed(world, "validating", _NOBODY, operation):
        await world.until(lambda: is_refused(world))
        yield


@asynccontextmanager
async def _installed(world: World, kind: str, url: str, *operations: str) -> AsyncIterator[None]:
    resource, name = f"{kind}webhookconfigurations", world.namespace
    ca = world.cluster.control.layout.identities.ca_file.read_bytes()
    hook = {
        "name": "pods.example.com",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(ca).decode()},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": operations,
                "resources": ["pods"],
            }
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    await world.kube.create(
        at(resource, group=_GROUP), {"metadata": {"name": name}, "webhooks": [hook]}
    )
    try:
        yield
    finally:
        await world.kube.delete(at(resource, None, name, group=_GROUP))


async def _is_changed(world: World) -> bool:
    """Whether the API server asks the webhook already."""
    try:
        return len((await _probe(world))["spec"]["containers"]) > 1
    except ApiError as error:
        if error.status != 400:
            raise
        return False  # another webhook denies it, and is asked later


async def _probe(world: World) -> Manifest:
    container = {"name": "probe", "image": "x"}
    pod = {"metadata": {"name": "probe"}, "spec": {"containers": [container]}}
    return await world.kube.create(at("pods", world.namespace), pod, dryRun="All")


async def _is_not_made(world: World, status: int = 500) -> bool:
    """Whether the API server asks the webhook already, and answers so."""
    try:
        await _probe(world)
    except ApiError as error:
        return error.status == status
    return False


async def _is_refused(world: World) -> bool:
    """Whether the API server asks the webhook already, and fails because it cannot."""
    name = (await world.kube.list(at("pods", world.namespace)))[0]["metadata"]["name"]
    note = {"metadata": {"annotations": {"example.com/probe": "1"}}}
    try:
        await world.kube.patch(at("pods", world.namespace, name), note, dryRun="All")
    except ApiError as error:
        return error.status == 500
    return False


def _tls(cluster: Cluster) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = cluster.control.layout.identities.kubelet
    context.load_cert_chain(pair.cert_file, pair.key_file)
    return context
