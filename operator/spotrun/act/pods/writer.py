"""Writes to a job's pods: each may be repeated, and none changes a pod of another owner."""

from dataclasses import replace

import msgspec

from spotrun.act.errors import Trouble, on_creation, on_removal, wants_restricted
from spotrun.act.manifests.plain_json import Manifest, plain
from spotrun.act.manifests.worker_pod import owned_metadata, worker_pod
from spotrun.act.manifests.worker_settings import Settings
from spotrun.act.pods import finalizer
from spotrun.act.writes import Writes, Written
from spotrun.api.names import (
    ANNOTATION_INTERRUPTION_USD,
    FINALIZER_METERED,
    LABEL_WORKER_ID,
    Reason,
)
from spotrun.kube.errors import AlreadyExists, Invalid, KubeError, NotFound
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client
from spotrun.observe.jobs.leader_memory import Memory
from spotrun.observe.kube_objects import PODS, PodMeta
from spotrun.state.actions import Create, PriceWorker, Release, Remove
from spotrun.state.names import worker_name
from spotrun.state.snapshot import JobSnapshot, Refusal


class _Found(msgspec.Struct, frozen=True):
    metadata: PodMeta


class PodWriter:
    """Creates, deletes and releases pods; failures are returned as troubles."""

    def __init__(self, client: Client, writes: Writes) -> None:
        self._client = client
        self._writes = writes

    async def try_out(
        self, job: JobSnapshot, worker: Create, settings: Settings, memory: Memory
    ) -> Trouble | None:
        """Ask whether a pod of this template would be accepted, and how strict it must be."""
        restricted = settings.restricted or memory.is_restricted
        try:
            await self._dry_run(job, worker, replace(settings, restricted=restricted))
        except AlreadyExists:
            return None  # `create` finds out who owns it
        except KubeError as error:
            if restricted or not wants_restricted(error):
                return on_creation(error)
            memory.is_restricted = True
            return await self.try_out(job, worker, settings, memory)
        memory.accepted = job.template
        return None

    async def create(self, job: JobSnapshot, worker: Create, pod: Manifest) -> Trouble | None:
        """Create a worker's pod; if ours exists already, that is a success."""
        try:
            made = await self._writes.do(
                "create",
                job.namespace,
                lambda: self._client.create(PODS, pod, Written, namespace=job.namespace),
            )
        except AlreadyExists:
            return await self._name_taken(job, worker.worker_id)
        except KubeError as error:
            return on_creation(error)
        self._reached(job, pod["metadata"]["name"], made.metadata.version)
        return None

    async def change(
        self, job: JobSnapshot, action: Remove | Release | PriceWorker
    ) -> Trouble | None:
        """Carry out a decided action on a pod of the job."""
        match action:
            case Remove():
                return await self._remove(job, action)
            case Release():
                return await self._release(job, action)
            case PriceWorker():
                return await self._price(job, action)

    async def _remove(self, job: JobSnapshot, action: Remove) -> Trouble | None:
        """Delete a pod, if it is still the same one."""
        name = worker_name(job.name, job.uid, action.worker_id)
        try:
            version = await self._writes.do(
                "delete",
                job.namespace,
                lambda: self._client.delete(PODS, name, uid=action.uid, namespace=job.namespace),
            )
        except KubeError as error:
            return on_removal(error)
        self._reached(job, name, version)
        return None

    async def _release(self, job: JobSnapshot, action: Release) -> Trouble | None:
        """Take our finalizer off a pod of the job."""
        name = worker_name(job.name, job.uid, action.worker_id)
        try:
            version = await self.strip(job.namespace, name, action.uid)
        except KubeError as error:
            return on_removal(error)
        self._reached(job, name, version)
        return None

    async def _price(self, job: JobSnapshot, action: PriceWorker) -> Trouble | None:
        """Write on a pod of the job what its loss would cost."""
        name = worker_name(job.name, job.uid, action.worker_id)
        annotations = {str(ANNOTATION_INTERRUPTION_USD): str(action.usd.amount)}
        meta = {"uid": action.uid, "annotations": annotations}
        try:
            written = await self._writes.do(
                "price",
                job.namespace,
                lambda: self._client.patch(
                    PODS, name, {"metadata": meta}, Written, namespace=job.namespace
                ),
            )
        except KubeError as error:
            return on_removal(error)
        self._reached(job, name, written.metadata.version)
        return None

    async def strip(self, namespace: str, name: str, uid: str) -> int | None:
        """Take our finalizer, and no other, off a pod; also off one whose job is gone.

        Returns the version in which caches show this; None if the finalizer was off already.
        """
        try:
            return await self._strip(namespace, name, uid, at=0)
        except Invalid:
            # It is another pod by now, or our finalizer is not its first one.
            found = await self._client.get(PODS, name, _Found, namespace=namespace)
            meta = found.metadata
            if meta.uid != uid or FINALIZER_METERED not in meta.finalizers:
                return None
            at = meta.finalizers.index(FINALIZER_METERED)
            return await self._strip(namespace, name, uid, at=at)

    async def _dry_run(self, job: JobSnapshot, worker: Create, settings: Settings) -> None:
        pod = worker_pod(job, worker, settings)
        await self._writes.do(
            "dry_run",
            job.namespace,
            lambda: self._client.create(PODS, pod, Written, namespace=job.namespace, dry_run=True),
        )

    async def _strip(self, namespace: str, name: str, uid: str, *, at: int) -> int:
        patch = finalizer.release(uid, at)
        released = await self._writes.do(
            "release",
            namespace,
            lambda: self._client.patch(PODS, name, patch, finalizer.Released, namespace=namespace),
        )
        return released.seen_from

    async def find(self, job: JobSnapshot, worker_id: int) -> PodMeta | None:
        """Read a worker's pod by its name, which nobody can change; raises KubeError."""
        name = worker_name(job.name, job.uid, worker_id)
        try:
            found = await self._client.get(PODS, name, _Found, namespace=job.namespace)
        except NotFound:
            return None
        return found.metadata if found.metadata.owner_uid == job.uid else None

    async def show(self, job: JobSnapshot, worker_id: int) -> bool | None:
        """Make caches show a worker's pod; return whether its labels had to be restored for that.

        Returns None if there is no such pod. Raises KubeError.
        """
        pod = await self.find(job, worker_id)
        if pod is None:
            return None
        labels = owned_metadata(job, pod.name)["labels"] | {LABEL_WORKER_ID: str(worker_id)}
        version, has_changed = pod.version, not labels.items() <= pod.labels.items()
        if has_changed:
            patch = plain({"metadata": {"uid": pod.uid, "labels": labels}})
            patched = await self._writes.do(
                "label",
                job.namespace,
                lambda: self._client.patch(PODS, pod.name, patch, Written, namespace=job.namespace),
            )
            version = patched.metadata.version
        self._reached(job, pod.name, version, must_show=True)
        return has_changed

    async def _name_taken(self, job: JobSnapshot, worker_id: int) -> Trouble | None:
        """Find out who owns the pod that has this name; if it is ours, the cache missed it."""
        try:
            if await self.show(job, worker_id) is not None:
                return None
        except KubeError as error:
            return Trouble(failure=error)
        name = worker_name(job.name, job.uid, worker_id)
        words = (
            f"pod {name} exists and does not belong to this job: delete it, "
            "or give the job another name"
        )
        return Trouble(refusal=Refusal(Reason.NAME_TAKEN.value, words))

    def _reached(
        self, job: JobSnapshot, name: str, version: int | None, *, must_show: bool = False
    ) -> None:
        key = Key(job.namespace, job.name)
        self._writes.reached(key, PODS, name, version, must_show=must_show)
