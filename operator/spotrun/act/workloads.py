"""Writing a job's Workloads: the operator asks Kueue for quota, returns it, accepts evictions."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from spotrun.act.errors import SOON_SECONDS, Trouble, on_removal, on_write
from spotrun.act.manifests.worker_pod import owned_metadata
from spotrun.act.manifests.workload import GROUP, POD_SET, workload, workload_change
from spotrun.act.writes import Writes, Written
from spotrun.api.names import ANNOTATION_PRIORITY_BOOST
from spotrun.kube.errors import AlreadyExists, KubeError, NotFound
from spotrun.kube.resource import Key, Resource
from spotrun.kube.rest.client import Client
from spotrun.state.actions import (
    AcceptEviction,
    AdoptRequest,
    AskQueue,
    BoostRequest,
    FinishRequest,
    LeaveQueue,
    QueueAction,
    ReturnQuota,
    TellReady,
)
from spotrun.state.queue import Queue, Workload
from spotrun.state.snapshot import JobSnapshot

_MOST_MESSAGE_CHARS = 32_000
_REQUEUED_BY = frozenset({"Preempted", "NodeFailures"})
"""The evictions after which a Workload may be admitted again at once; after others Kueue makes a
pause, or a person must act."""


async def change(
    client: Client, writes: Writes, job: JobSnapshot, action: QueueAction, now: datetime
) -> Trouble | None:
    """Carry out what was decided about one Workload."""
    queue = job.queue
    assert queue is not None, "only a job with a queue has queue actions"
    one = _Writer(client, writes, job, queue)
    try:
        await _carry_out(one, action, now)
    except AlreadyExists:
        return Trouble(wake_after_seconds=SOON_SECONDS)  # ours: the creation's answer was lost
    except NotFound:
        return None
    except KubeError as error:
        return on_removal(error) if isinstance(action, LeaveQueue) else on_write(error)
    return None


async def _carry_out(one: "_Writer", action: QueueAction, now: datetime) -> None:
    match action:
        case AskQueue(waiting=None):
            await one.ask(action)
        case AskQueue(waiting=Workload() as waiting):
            body = one.changed(action)
            await one.patch(waiting, body)
        case AdoptRequest(request=request):
            await one.adopt(request)
        case BoostRequest(request=request, boost=boost):
            said = {str(ANNOTATION_PRIORITY_BOOST): str(boost)}
            await one.patch(request, {"metadata": {"annotations": said}})
        case ReturnQuota(request=request, count=count):
            status = {"reclaimablePods": [{"name": POD_SET, "count": count}]}
            await one.patch(request, {"status": status}, subresource="status")
        case LeaveQueue(request=request):
            await one.leave(request)
        case AcceptEviction(request=request):
            await one.accept_eviction(request, now)
        case FinishRequest(request=request):
            await one.finish(request, action, now)
        case TellReady(request=request, is_ready=is_ready):
            await one.tell_ready(request, now, is_ready=is_ready)


def name_of(action: QueueAction) -> str:
    """Name an action for the message about its failure."""
    match action:
        case AskQueue(number=number):
            return f"request {number} to the queue"
        case ReturnQuota(request=one) | LeaveQueue(request=one) | AcceptEviction(request=one):
            return f"the return of quota by Workload {one.name}"
        case AdoptRequest(request=one):
            return f"the use of Workload {one.name}"
        case BoostRequest(request=one):
            return f"the priority of Workload {one.name}"
        case FinishRequest(request=one):
            return f"the end of Workload {one.name}"
        case TellReady(request=one):
            return f"the readiness of Workload {one.name}"


class _Writer:
    def __init__(self, client: Client, writes: Writes, job: JobSnapshot, queue: Queue) -> None:
        self._client = client
        self._writes = writes
        self._job = job
        self._queue = queue
        self._kind = Resource(GROUP, queue.api_version, "workloads")

    async def ask(self, action: AskQueue) -> None:
        body, namespace = workload(self._job, action, self._queue), self._job.namespace
        made = await self._writes.do(
            "queue",
            namespace,
            lambda: self._client.create(self._kind, body, Written, namespace=namespace),
        )
        name = body["metadata"]["name"]
        self._reached(name, made.metadata.version, must_show=True)

    def changed(self, action: AskQueue) -> Mapping[str, Any]:
        return workload_change(self._job, action, self._queue)

    async def patch(
        self, one: Workload, body: Mapping[str, Any], subresource: str | None = None
    ) -> None:
        """Change a Workload if it still is as it was when that was decided."""
        metadata = {**body.get("metadata", {}), "resourceVersion": one.version}
        await self._patch(one.name, {**body, "metadata": metadata}, subresource)

    async def adopt(self, one: Workload) -> None:
        owned = owned_metadata(self._job, one.name)
        body = {name: owned[name] for name in ("labels", "ownerReferences")}
        await self.patch(one, {"metadata": body})

    async def leave(self, one: Workload) -> None:
        version = await self._writes.do(
            "queue",
            self._job.namespace,
            lambda: self._client.delete(
                self._kind, one.name, uid=one.uid, namespace=self._job.namespace
            ),
        )
        self._reached(one.name, version)

    async def accept_eviction(self, one: Workload, now: datetime) -> None:
        found, words = await self._read(one), one.words or one.evicted
        is_requeued = one.evicted in _REQUEUED_BY
        said = {
            "QuotaReserved": (False, "Pending", words),
            "Admitted": (False, "NoReservation", "The workload has no reservation"),
            "Requeued": (is_requeued, one.evicted or "Deactivated", words),
        }
        if any(known["type"] == "PodsReady" for known in found["status"].get("conditions", [])):
            # Otherwise Kueue would count the time of the next start as a recovery.
            said["PodsReady"] = (False, "WaitForStart", "the job's workers are gone")
        await self._say(one, found, said, now, admission=None)

    async def finish(self, one: Workload, action: FinishRequest, now: datetime) -> None:
        reason = "Succeeded" if action.has_succeeded else "Failed"
        said = {"Finished": (True, reason, action.why)}
        await self._say(one, await self._read(one), said, now)

    async def tell_ready(self, one: Workload, now: datetime, *, is_ready: bool) -> None:
        # The reasons are Kueue's: it counts the time of a recovery from this very moment.
        said = (
            (True, "Started", "the job's workers are ready")
            if is_ready
            else (False, "WaitForRecovery", "the job has lost workers, and waits for new ones")
        )
        await self._say(one, await self._read(one), {"PodsReady": said}, now)

    async def _say(
        self,
        one: Workload,
        found: Mapping[str, Any],
        said: Mapping[str, tuple[bool, str, str]],
        now: datetime,
        **status: None,
    ) -> None:
        """Write conditions of the Workload that was read, and other fields of its status."""
        generation = found["metadata"].get("generation", 0)
        conditions = _with(found.get("status", {}).get("conditions", []), said, generation, now)
        body = {"status": {**status, "conditions": conditions}}
        await self.patch(one, body, subresource="status")

    async def _read(self, one: Workload) -> dict[str, Any]:
        """Read the whole Workload: a list of conditions can only be written as a whole."""
        return await self._client.get(
            self._kind, one.name, dict[str, Any], namespace=self._job.namespace
        )

    async def _patch(self, name: str, body: Mapping[str, Any], subresource: str | None) -> None:
        written = await self._writes.do(
            "queue",
            self._job.namespace,
            lambda: self._client.patch(
                self._kind,
                name,
                body,
                Written,
                namespace=self._job.namespace,
                subresource=subresource,
            ),
        )
        self._reached(name, written.metadata.version)

    def _reached(self, name: str, version: int | None, *, must_show: bool = False) -> None:
        key = Key(self._job.namespace, self._job.name)
        self._writes.reached(key, self._kind, name, version, must_show=must_show)


def _with(
    conditions: list[dict[str, Any]],
    said: Mapping[str, tuple[bool, str, str]],
    generation: int,
    now: datetime,
) -> list[dict[str, Any]]:
    """Return the conditions with changed ones; where the status stays, its time stays too."""
    before = {one["type"]: one for one in conditions}
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    for kind, (holds, reason, message) in said.items():
        status, known = str(holds), before.get(kind, {})
        since = known.get("lastTransitionTime") if known.get("status") == status else None
        before[kind] = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message[:_MOST_MESSAGE_CHARS],
            "lastTransitionTime": since or moment,
            "observedGeneration": generation,
        }
    return list(before.values())
