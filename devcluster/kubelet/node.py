"""One node: the pods on it, and what can happen to its machine."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

from devcluster.kubelet.api import KubeletApi
from devcluster.kubelet.lifecycle import Timing
from devcluster.kubelet.objects import Endpoint, NodeSpec, node_object
from devcluster.kubelet.pod import Order, PodWorker
from devcluster.kubelet.records import NODE_SHUTDOWN, REJECTED_IN_SHUTDOWN, Verdict
from devcluster.kubelet.runtime import Manifest, Runtime
from devcluster.watching import EventType

SHUTTING_DOWN = "node is shutting down"
# The time that a machine gives its kubelet for the last statuses before it goes down.
REPORT_SECONDS = 5.0


class KubeletNode:
    """The part of a kubelet that belongs to one node; it is a pod's Host."""

    def __init__(
        self, spec: NodeSpec, runtime: Runtime, api: KubeletApi, endpoint: Endpoint, timing: Timing
    ) -> None:
        self.spec = spec
        self.runtime = runtime
        self.timing = timing
        self.endpoint = endpoint
        self.node: Manifest = {}
        self.renew_at = 0.0  # on the loop's clock; the heartbeat updates it
        self.workers: dict[str, PodWorker] = {}
        self._api = api
        self._reachable = asyncio.Event()
        self.rejects: Verdict | None = None  # the status of new pods, which are then not started
        self._burials: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        """The name of the Node object."""
        return self.spec.name

    @property
    def address(self) -> str:
        """The node's address, its pods' hostIP."""
        return self.endpoint.address

    @property
    def is_reachable(self) -> bool:
        """False while the node and the API server cannot reach each other."""
        return self._reachable.is_set()

    async def join(self, version: str) -> None:
        """Register, and take over the pods that are already bound to the node."""
        self.rejects = None
        now = datetime.now(UTC)
        self.node = await self._api.register(node_object(self.spec, self.endpoint, version, now))
        await self._api.renew_lease(self.node, self.timing.lease_duration, now)
        self._reachable.set()
        await self._catch_up()

    def handle(self, kind: EventType, pod: Manifest) -> None:
        """Act on a watch event of a pod that is bound to this node."""
        if not self.is_reachable:
            return  # `_catch_up` does it later
        uid = pod["metadata"]["uid"]
        worker = self.workers.get(uid)
        if kind == "DELETED":
            self._forget(uid)
        elif worker is not None:
            worker.see(pod)
        else:
            self.workers[uid] = worker = PodWorker(pod, self)
            if self.rejects is not None and not worker.is_over:
                worker.reject(self.rejects)
            else:
                worker.start()

    def worker_of(self, namespace: str, name: str) -> PodWorker | None:
        """Find a pod by its name."""
        for worker in self.workers.values():
            meta = worker.pod["metadata"]
            if meta["name"] == name and meta["namespace"] == namespace:
                return worker
        return None

    def cut_off(self) -> None:
        """Cut the node off from the API server; its containers continue to run."""
        self._reachable.clear()

    async def reconnect(self) -> None:
        """Undo `cut_off`: report what happened meanwhile, and get the missed changes."""
        await self._api.write_conditions(self.name, datetime.now(UTC))
        await self.renew_lease()
        self._reachable.set()
        await self._catch_up()
        for worker in self.workers.values():
            worker.report_again()

    async def power_off(self) -> None:
        """End all containers at once without a report."""
        self._reachable.clear()
        workers = list(self.workers.values())
        self.workers.clear()
        await asyncio.gather(*(w.abandon() for w in workers), *self._burials)

    async def shut_down(self, grace_seconds: float) -> None:
        """Shut down gracefully: end the pods within the time, report it, and power off."""
        self.rejects = REJECTED_IN_SHUTDOWN
        now = datetime.now(UTC)
        await self._api.write_conditions(self.name, now, not_ready_because=SHUTTING_DOWN)
        workers = list(self.workers.values())
        for worker in workers:
            grace = worker.pod["spec"].get("terminationGracePeriodSeconds", 30)
            worker.end(Order(min(grace_seconds, grace), NODE_SHUTDOWN))
        # Pods that do not end in time end with the machine.
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds + REPORT_SECONDS):
                await asyncio.gather(*(w.reported_over() for w in workers))
        await self.power_off()

    async def evict(self, namespace: str, name: str, message: str) -> None:
        """End a pod without grace for the node's need, as a kubelet under pressure does."""
        worker = self.worker_of(namespace, name)
        if worker is None:
            raise ValueError(f"node {self.name} has no pod {namespace}/{name}")
        worker.end(Order(0, Verdict("Evicted", message, is_disruption=True)))
        await worker.reported_over()

    async def renew_lease(self) -> None:
        """Show that the node is alive."""
        await self._api.renew_lease(self.node, self.timing.lease_duration, datetime.now(UTC))

    async def write_status(self, pod: Manifest, status: Manifest) -> Manifest | None:
        """Write a pod's status once the node is reachable, and return its new metadata.

        None when the pod is gone.
        """
        return await self._api.write_status(pod, status, self._reachable)

    async def confirm_deletion(self, pod: Manifest) -> None:
        """Tell the API server that nothing is left of a deleted pod."""
        await self._api.confirm_deletion(pod, self._reachable)

    async def _catch_up(self) -> None:
        pods = await self._api.pods_of(self.name)
        for uid in self.workers.keys() - {pod["metadata"]["uid"] for pod in pods}:
            self._forget(uid)
        for pod in pods:
            self.handle("MODIFIED", pod)

    def _forget(self, uid: str) -> None:
        worker = self.workers.pop(uid, None)
        if worker is not None:
            burial = asyncio.create_task(worker.abandon())
            self._burials.add(burial)
            burial.add_done_callback(self._burials.discard)
