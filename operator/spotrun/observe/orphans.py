"""Pods with our finalizer whose job is no more: they wait for us, and nobody else lets them go."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spotrun.api.names import FINALIZER_METERED
from spotrun.observe.objects import PodObject


@dataclass(frozen=True)
class Orphan:
    """One of them."""

    name: str
    uid: str
    owner_uid: str | None


def orphans_among(pods: Iterable[PodObject], job_uid: str | None) -> Iterator[Orphan]:
    """The pods that are not of the present job of their name, if there is one."""
    for pod in pods:
        meta = pod.metadata
        is_live = job_uid is not None and meta.owner_uid == job_uid
        if FINALIZER_METERED in meta.finalizers and not is_live:
            yield Orphan(meta.name, meta.uid, meta.owner_uid)
