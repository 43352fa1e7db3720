"""The kubelet of many nodes: one watch, one heartbeat, one task per pod."""

import asyncio
import logging
import random
import ssl
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Self

import aiohttp

from devcluster.access import Access
from devcluster.client import ApiError, Client, at
from devcluster.kubelet.api import KubeletApi
from devcluster.kubelet.lifecycle import Timing
from devcluster.kubelet.node import KubeletNode
from devcluster.kubelet.objects import Endpoint, NodeSpec
from devcluster.kubelet.pod import PodWorker
from devcluster.kubelet.runtime import Manifest, Runtime
from devcluster.kubelet.server import KubeletServer

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 0.5
# For all nodes together: thousands of nodes are renewed less often than every ten seconds, but
# always before half of a lease has passed.
RENEWALS_PER_SECOND = 50


class Kubelet:
    """Runs any number of nodes; used as `async with Kubelet(...) as kubelet`."""

    def __init__(
        self,
        access: Access,
        endpoint: Endpoint,
        *,
        tls: ssl.SSLContext | None = None,
        timing: Timing | None = None,
    ) -> None:
        self.nodes: dict[str, KubeletNode] = {}
        self.client = Client(access)
        self.api = KubeletApi(self.client)
        self.endpoint = endpoint
        self.timing = timing or Timing()
        self._server = KubeletServer(self.find_pod, tls)
        self._version = ""
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.client)
        port = await self._server.start(self.endpoint.address, self.endpoint.port)
        self._stack.push_async_callback(self._server.stop)
        self.endpoint = replace(self.endpoint, port=port)
        self._version = (await self.client.get("/version"))["gitVersion"]
        for work in (self._follow_pods(), self._beat()):
            task = asyncio.create_task(work)
            task.add_done_callback(_complain)
            self._tasks.append(task)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(node.power_off() for node in self.nodes.values()))
        await self._stack.aclose()

    async def add_node(self, spec: NodeSpec, runtime: Runtime) -> KubeletNode:
        """Register a node and run it from now on."""
        if spec.name in self.nodes:
            raise ValueError(f"there is a node {spec.name} already")
        node = KubeletNode(spec, runtime, self.api, self.endpoint, self.timing)
        self.nodes[spec.name] = node
        try:
            await self.join(node)
        except BaseException:
            del self.nodes[spec.name]
            raise
        return node

    async def join(self, node: KubeletNode) -> None:
        """Register a node, again if its machine was off."""
        await node.join(self._version)
        self._plan_renewal(node)

    async def drop_node(self, name: str) -> KubeletNode:
        """Stop running a node: its containers end at once, its objects stay."""
        node = self.nodes.pop(name)
        await node.power_off()
        return node

    def find_pod(self, namespace: str, name: str) -> PodWorker | None:
        """Find a pod on any of the nodes."""
        found = (node.worker_of(namespace, name) for node in self.nodes.values())
        return next((worker for worker in found if worker is not None), None)

    async def _follow_pods(self) -> None:
        async with aclosing(self.client.watch(at("pods"), fieldSelector="spec.nodeName!=")) as pods:
            async for event in pods:
                event.object["metadata"].pop("managedFields", None)  # half of it, not needed here
                node = self._node_of(event.object)
                if node is not None:
                    node.handle(event.type, event.object)

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            due = [n for n in self.nodes.values() if n.is_reachable and n.renew_at <= now]
            await asyncio.gather(*(self._renew(node) for node in due))
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def _renew(self, node: KubeletNode) -> None:
        try:
            await node.renew_lease()
        except (ApiError, aiohttp.ClientError, TimeoutError) as error:
            # Tried again with the next heartbeat: a lease is meant to expire when renewals fail.
            log.debug("the lease of %s was not renewed: %r", node.name, error)
        else:
            self._plan_renewal(node)

    def _plan_renewal(self, node: KubeletNode) -> None:
        seconds = max(self.timing.lease_renewal, len(self.nodes) / RENEWALS_PER_SECOND)
        seconds = min(seconds, self.timing.lease_duration / 2)
        spread = random.uniform(0.8, 1.0)  # noqa: S311 (jitter, not a secret)
        node.renew_at = asyncio.get_running_loop().time() + seconds * spread

    def _node_of(self, pod: Manifest) -> KubeletNode | None:
        name = pod.get("spec", {}).get("nodeName")
        if name is not None:
            return self.nodes.get(name)
        # A deletion that was found by a relist contains only the pod's identity.
        uid = pod["metadata"]["uid"]
        return next((n for n in self.nodes.values() if uid in n.workers), None)


def _complain(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("a kubelet task has ended", exc_info=task.exception())
