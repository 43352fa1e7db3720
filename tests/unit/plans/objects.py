"""Jobs, pods and events made by hand, as an API server would show them."""

from typing import Any

from spotrun.api.names import FINALIZER_METERED, LABEL_WORKER_ID
from tests.plans.history import Event, Manifest

JOB_UID = "job-uid"


def a_job(version: int, kind: str = "MODIFIED", *, replicas: int = 2, **status: Any) -> Event:
    """The job with this status, all of it."""
    meta = {"name": "job", "uid": JOB_UID, "resourceVersion": str(version)}
    content: Manifest = {
        "kind": "TrainingJob",
        "metadata": meta,
        "spec": {"workers": {"replicas": replicas}},
        "status": status,
    }
    return Event(version, kind, content)


def a_pod(
    version: int,
    kind: str = "ADDED",
    worker_id: int = 0,
    *,
    uid: str | None = None,
    owner: str = JOB_UID,
    metered: bool = True,
    going: bool = False,
    phase: str = "Running",
    **meta: Any,
) -> Event:
    """A worker's pod."""
    metadata: Manifest = {
        "name": f"job-abcde-{worker_id}",
        "uid": uid or f"uid-{worker_id}",
        "resourceVersion": str(version),
        "labels": {str(LABEL_WORKER_ID): str(worker_id)},
        "ownerReferences": [{"uid": owner, "controller": True}],
        "finalizers": [str(FINALIZER_METERED)] if metered else [],
        **({"deletionTimestamp": "2026-03-02T12:00:00Z"} if going else {}),
        **meta,
    }
    return Event(version, kind, {"kind": "Pod", "metadata": metadata, "status": {"phase": phase}})


def a_world(number: int, members: str, **world: Any) -> Manifest:
    """A world as the status has it."""
    return {"number": number, "members": members, "active": True, "entry": "Abort", **world}
