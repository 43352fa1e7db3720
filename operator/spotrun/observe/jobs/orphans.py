"""Pods with our finalizer whose job is gone: only the operator can release them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spotrun.api.names import FINALIZER_METERED
from spotrun.observe.kube_objects import PodObject


@dataclass(frozen=True)
class Orphan:
    """A pod with our finalizer whose job is gone."""

    name: str
    uid: str
    owner_uid: str | None


def orphans_among(pods: Iterable[PodObject], job_uid: str | None) -> Iterator[Orphan]:
    """Yield the pods that do not belong to the job that has its name now, if there is one."""
    for pod in pods:
        if is_orphan(pod, job_uid):
            yield Orphan(pod.metadata.name, pod.metadata.uid, pod.metadata.owner_uid)


def is_orphan(pod: PodObject, job_uid: str | None) -> bool:
    """Whether a pod has our finalizer, but the job that has its name now does not own it."""
    is_live = job_uid is not None and pod.metadata.owner_uid == job_uid
    return FINALIZER_METERED in pod.metadata.finalizers and not is_live
