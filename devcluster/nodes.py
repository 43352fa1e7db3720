"""Nodes for tests: registered, kept alive, and subjected to the failures of machines."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Self

from devcluster import notices
from devcluster.access import Access
from devcluster.client import ApiError, Client, Manifest, at
from devcluster.kubelet.api import LEASES
from devcluster.kubelet.kubelet import Kubelet
from devcluster.kubelet.lifecycle import Timing
from devcluster.kubelet.node import KubeletNode
from devcluster.kubelet.objects import LEASE_NAMESPACE, Endpoint, NodeSpec
from devcluster.kubelet.records import Verdict
from devcluster.kubelet.runtime import Runtime
from devcluster.notices import Dialect, Write
from devcluster.scripted import Scripted

NOT_READY = "node.kubernetes.io/not-ready"
READY_SECONDS = 30.0
# A taint patch fails if another writer changes the node; this many failures in a row are an error.
CONFLICTS_MAX = 20


class Machine:
    """One node and what can happen to it."""

    def __init__(self, node: KubeletNode, kubelet: Kubelet) -> None:
        self._node = node
        self._kubelet = kubelet
        self._is_off = False

    @property
    def name(self) -> str:
        """The name of the Node object."""
        return self._node.name

    async def read(self) -> Manifest:
        """Read the Node object."""
        return await self._client.get(at("nodes", None, self.name))

    def go_silent(self) -> None:
        """Cut the node off: no leases, statuses or new orders; its containers continue to run."""
        self._node.cut_off()

    async def come_back(self) -> None:
        """Reconnect a node that was cut off, or switch a machine that is off on again.

        After a reconnection the node reports everything that happened meanwhile. If the machine was
        off, its pods with restartPolicy Never have failed, and the others are started again.
        """
        if self._is_off:
            self._is_off = False
            await self._kubelet.join(self._node)
        else:
            await self._node.reconnect()

    async def vanish(self, *, delete_node: bool = False) -> None:
        """Take the machine away: its containers end without any report.

        With `delete_node` the Node object is deleted as well, as a cloud's controller does later.
        """
        self._is_off = True
        await self._node.power_off()
        if delete_node:
            await delete_node_object(self._client, self.name)

    async def shut_down(self, grace_seconds: float) -> None:
        """Shut the machine down gracefully, as GKE does to a spot node; returns when it is off."""
        self._is_off = True
        await self._node.shut_down(grace_seconds)

    async def evict_for_pressure(
        self,
        namespace: str,
        pod: str,
        message: str = "The node was low on resource: memory. ",
    ) -> None:
        """End a pod at once because the node lacks memory; returns when its status says so."""
        await self._node.evict(namespace, pod, message)

    def reject_pods(self, reason: str, message: str) -> None:
        """Reject all new pods from now on, with a reason; running pods continue."""
        self._node.rejects = Verdict(reason, f"Pod was rejected: {message}")

    def take_pods(self) -> None:
        """Undo `reject_pods`."""
        self._node.rejects = None

    async def notice(self, dialect: Dialect, seconds: float) -> datetime:
        """Announce in a platform's dialect that the node ends in some seconds; returns that time.

        This is only the announcement: the test itself must then call `vanish`, `shut_down`, or
        neither.
        """
        now = datetime.now(UTC)
        deadline = now + timedelta(seconds=seconds)
        await self._write(lambda node: notices.notice(dialect, node, deadline, now))
        return deadline

    async def take_back_notice(self, dialect: Dialect) -> None:
        """Undo a notice, as a cancelled consolidation or maintenance does."""
        await self._write(lambda node: notices.take_back(dialect, node))

    @property
    def _client(self) -> Client:
        return self._kubelet.client

    async def _write(self, writes_for: Callable[[Manifest], list[Write]]) -> None:
        done = 0
        for _ in range(CONFLICTS_MAX):
            try:
                for write in writes_for(await self.read())[done:]:
                    await self._client.request(
                        write.method, write.path, body=write.body, content_type=write.content_type
                    )
                    done += 1
            except ApiError as error:
                if error.status != 409:
                    raise
            else:
                return
        raise RuntimeError(f"other writers change node {self.name} all the time: the patch failed")


class Nodes:
    """The nodes of a test: `async with Nodes(cluster.admin, ...) as nodes: await nodes.add("a")`.

    Leaving the block removes every node, its pods and its lease.
    """

    def __init__(
        self,
        access: Access,
        *,
        runtime: Runtime | None = None,
        address: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        timing: Timing | None = None,
    ) -> None:
        """Prepare; without `tls`, which the API server trusts, `kubectl logs` does not work."""
        self._runtime = runtime or Scripted()
        self._kubelet = Kubelet(access, Endpoint(address, port), tls=tls, timing=timing)
        self._machines: dict[str, Machine] = {}

    async def __aenter__(self) -> Self:
        await self._kubelet.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await asyncio.gather(*(self.remove(name) for name in list(self._machines)))
        finally:
            await self._kubelet.__aexit__()

    def get(self, name: str) -> Machine | None:
        """Return a machine, if it was added."""
        return self._machines.get(name)

    def __getitem__(self, name: str) -> Machine:
        return self._machines[name]

    @property
    def client(self) -> Client:
        """The client that the kubelet uses, free for the test's own use."""
        return self._kubelet.client

    @property
    def num_pod_writes(self) -> int:
        """The number of times that the kubelet has written a status or confirmed a deletion."""
        return self._kubelet.api.num_pod_writes

    async def add(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Manifest] = (),
        capacity: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        finalizers: Sequence[str] = (),
        provider_id: str = "",
        runtime: Runtime | None = None,
    ) -> Machine:
        """Register a node; returns when pods can be scheduled on it."""
        spec = NodeSpec(
            name,
            labels=labels or {},
            taints=taints,
            capacity=capacity or {},
            annotations=annotations or {},
            finalizers=finalizers,
            provider_id=provider_id,
        )
        try:
            node = await self._kubelet.add_node(spec, runtime or self._runtime)
        except ApiError:  # a part of it may exist
            await delete_node_object(self.client, name)
            raise
        self._machines[name] = machine = Machine(node, self._kubelet)
        # Admission adds the taint to every new node; the node lifecycle controller removes it.
        await self.client.until(at("nodes"), name, _is_ready, timeout_seconds=READY_SECONDS)
        return machine

    async def remove(self, name: str) -> None:
        """Take a node away, with its pods and its lease."""
        del self._machines[name]
        await self._kubelet.drop_node(name)
        for pod in await self.client.list(at("pods"), fieldSelector=f"spec.nodeName={name}"):
            meta = pod["metadata"]
            path = at("pods", meta["namespace"], meta["name"])
            await _unless_absent(self.client.delete(path, grace_seconds=0, uid=meta["uid"]))
        await delete_node_object(self.client, name)
        await _unless_absent(self.client.delete(at("leases", LEASE_NAMESPACE, name, group=LEASES)))


async def delete_node_object(client: Client, name: str) -> None:
    """Delete a Node object, even one with a finalizer."""
    await _unless_absent(client.delete(at("nodes", None, name)))
    # The controller that would remove the finalizer does not run here.
    await _unless_absent(client.patch(at("nodes", None, name), {"metadata": {"finalizers": None}}))


async def _unless_absent(request: Awaitable[Manifest]) -> None:
    try:
        await request
    except ApiError as error:
        if error.status != 404:
            raise


def _is_ready(node: Manifest | None) -> bool:
    if node is None:
        return False
    is_tainted = any(t["key"] == NOT_READY for t in node["spec"].get("taints", ()))
    ready = next(c for c in node["status"]["conditions"] if c["type"] == "Ready")
    return not is_tainted and ready["status"] == "True"
