"""The caches behind jobs: TrainingJobs, the pods of their workers, and the nodes."""

from collections.abc import Callable, Iterable
from typing import Any

from typing_extensions import override

from spotrun.api.names import LABEL_JOB, LABEL_JOB_UID, LABEL_TEMPLATE
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client, Selection
from spotrun.kube.watch.reflector import Handler, Reflector
from spotrun.kube.watch.reflector_owner import ReflectorOwner
from spotrun.observe.jobs.orphans import is_orphan
from spotrun.observe.jobs.pods import has_ended, worker_id_in
from spotrun.observe.jobs.snapshot import Readings
from spotrun.observe.kube_objects import (
    NODES,
    PODS,
    TRAINING_JOBS,
    JobObject,
    NodeObject,
    PodObject,
)
from spotrun.observe.resources import devices_of
from spotrun.state.job_state import JobState


class JobCaches(ReflectorOwner):
    """The caches of jobs, kept up to date in an `async with` block; `wake` gets jobs' keys."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str | None,
        wake: Callable[[Key], None],
        job_changed: Handler[JobObject],
        hurry: Callable[[Key], None] = lambda _: None,
        orphaned: Callable[[Key], None] = lambda _: None,
        pod_changed: Handler[PodObject],
        node_changed: Handler[NodeObject],
    ) -> None:
        self.readings = Readings()
        self.objects: Reflector[JobObject] = Reflector(
            client,
            Selection(TRAINING_JOBS, namespace),
            JobObject,
            self._job_changed,
            indices={"owner": _of_owner, "namespace": _of_namespace},
        )
        self._pods: Reflector[PodObject] = Reflector(
            client,
            Selection(PODS, namespace, label_selector=LABEL_JOB_UID),
            PodObject,
            self._pod_changed,
            indices={"job": _of_job, "node": _of_node},
        )
        self._nodes: Reflector[NodeObject] = Reflector(
            client, Selection(NODES), NodeObject, self._node_changed
        )
        self._wake = wake
        self._hurry = hurry
        self._orphaned = orphaned
        self._job_changed_handler = job_changed
        self._pod_changed_handler = pod_changed
        self._node_changed_handler = node_changed

    @property
    @override
    def reflectors(self) -> dict[str, Reflector[Any]]:
        """The reflectors, by the names that messages and metrics show."""
        return {"trainingjobs": self.objects, "pods": self._pods, "nodes": self._nodes}

    def all_keys(self) -> list[Key]:
        """The names of all jobs, and of those that only have pods left."""
        of_pods = {_key_of(pod) for pod in self._pods.store}
        return sorted(self.objects.store.names() | of_pods)

    def with_ended_workers(self) -> set[Key]:
        """The names of jobs with a pod that has ended, or is being deleted."""
        return {_key_of(pod) for pod in self._pods.store if has_ended(pod)}

    def get(self, key: Key) -> JobObject | None:
        """Return a job's object; None if there is none."""
        return self.objects.get(*key)

    def owned_by(self, uid: str) -> Iterable[JobObject]:
        """Return the jobs that an object controls, such as the trials of a search."""
        return self.objects.by_index("owner", uid)

    def in_namespace(self, namespace: str) -> Iterable[JobObject]:
        """Return the jobs of a namespace, without those that another controller runs."""
        found = self.objects.by_index("namespace", namespace)
        return (job for job in found if not self.readings.is_handed_over(job))

    def uid_of(self, key: Key) -> str | None:
        """Return the UID of the job that has this name now; None if there is none."""
        job = self.get(key)
        return job.metadata.uid if job is not None else None

    def spec_and_state(self, key: Key) -> tuple[TrainingJobSpec, JobState] | None:
        """Return a job's spec and status; None if there is no job, or one of them is unreadable."""
        job = self.get(key)
        spec = self.readings.spec(job).spec if job is not None else None
        status = self.readings.status(job).status if job is not None else None
        return None if spec is None or status is None else (spec, status)

    def job_of(self, pod: PodObject) -> tuple[TrainingJobSpec, str] | None:
        """Return the spec and template hash of a worker's job; None for any other pod."""
        job = self.get(_key_of(pod))
        if job is None or not self.is_worker(pod):
            return None
        read = self.readings.spec(job)
        return None if read.spec is None else (read.spec, read.template)

    def is_worker(self, pod: PodObject) -> bool:
        """Whether a pod is a worker of an existing job: its worker id was given out."""
        job = self.get(_key_of(pod))
        if job is None:
            return False
        meta, status = job.metadata, self.readings.status(job).status
        given_out = (status.next_worker_id if status is not None else None) or 0
        return worker_id_in(pod, meta.name, meta.uid, given_out) is not None

    def has_devices_on_pods(self, key: Key) -> bool:
        """Whether a worker of the job's present template was created with device claims (DRA)."""
        job = self.get(key)
        template = self.readings.spec(job).template if job is not None else None
        pods = (p for p in self.pods_of(key) if p.metadata.labels.get(LABEL_TEMPLATE) == template)
        return any(devices_of(pod) and self.job_of(pod) is not None for pod in pods)

    def pods_of(self, key: Key) -> Iterable[PodObject]:
        """Return the pods that claim to be a job's."""
        return self._pods.by_index("job", key)

    def pods_on(self, node: str) -> Iterable[PodObject]:
        """The pods, of all jobs, that are bound to a node."""
        return self._pods.by_index("node", node)

    def node(self, name: str) -> NodeObject | None:
        """A node's object."""
        return self._nodes.get("", name)

    def nodes(self) -> Iterable[NodeObject]:
        """All nodes."""
        return self._nodes.store

    def wake_all(self) -> None:
        """Wake every job."""
        for key in self.objects.store.names():
            self._wake(key)

    def wake_on(self, node: str) -> None:
        """Wake the jobs with workers on a node."""
        for pod in self.pods_on(node):
            self.wake_job_of(pod)

    def wake_job_of(self, pod: PodObject) -> None:
        """Wake the job of a pod."""
        self._wake(_key_of(pod))

    def _job_changed(self, old: JobObject | None, new: JobObject | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self.readings.forget(old.metadata.uid)  # every replica reads it, the leader or not
            key = Key(old.metadata.namespace, old.metadata.name)
            self._orphaned(key)
            self._hurry(key)  # a new job of that name must not wait for the old one's pause
        if old is not None and new is not None and _is_asked(old, new):
            self._hurry(Key(new.metadata.namespace, new.metadata.name))
        self._job_changed_handler(old, new)

    def _pod_changed(self, old: PodObject | None, new: PodObject | None) -> None:
        self._pod_changed_handler(old, new)
        for pod in (old, new):
            if pod is not None:
                self.wake_job_of(pod)
        if new is not None and is_orphan(new, self.uid_of(_key_of(new))):
            self._orphaned(_key_of(new))

    def _node_changed(self, old: NodeObject | None, new: NodeObject | None) -> None:
        if old is not None and new is not None and _matters(old) == _matters(new):
            return
        node = new or old
        assert node is not None, "a change has an old or a new side"
        self._node_changed_handler(old, new)
        self.wake_on(node.metadata.name)


def _key_of(pod: PodObject) -> Key:
    """Return the job that a pod claims to belong to: by its owner, as labels are easily changed.

    `kubectl delete --cascade=orphan` leaves pods without an owner.
    """
    meta = pod.metadata
    return Key(meta.namespace, meta.owner_name or meta.labels.get(LABEL_JOB, ""))


def _of_owner(job: JobObject) -> Iterable[str]:
    owner = job.metadata.owner_uid
    return (owner,) if owner is not None else ()


def _of_namespace(job: JobObject) -> Iterable[str]:
    return (job.metadata.namespace,)


def _of_job(pod: PodObject) -> Iterable[Key]:
    return (_key_of(pod),)


def _of_node(pod: PodObject) -> Iterable[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def _is_asked(old: JobObject, new: JobObject) -> bool:
    """Whether a change requests something new of a job, so that it must not wait for a pause."""
    before, meta = old.metadata, new.metadata
    is_deleted = before.deletion_timestamp is None and meta.deletion_timestamp is not None
    return is_deleted or before.generation != meta.generation


def _matters(node: NodeObject) -> tuple[object, ...]:
    """Return the facts about a node that are used: not its version, which heartbeats change."""
    meta = node.metadata
    return (meta.deletion_timestamp, meta.labels, meta.annotations, node.spec, node.status)
