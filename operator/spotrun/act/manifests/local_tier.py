"""The local tier of checkpoints in a worker's pod: its volume and its variables. Pure."""

from spotrun.act.manifests.plain_json import Manifest
from spotrun.api import names
from spotrun.api.field_types.text_values import AutoOrDuration
from spotrun.api.spec.checkpoint import LocalTier
from spotrun.state.snapshot import JobSnapshot

PATH = "/run/spotrun-local"


def _asked(job: JobSnapshot) -> LocalTier | None:
    return job.spec.checkpoint.local if job.spec.checkpoint is not None else None


def settings(job: JobSnapshot) -> dict[str, str]:
    """Return the variables of the local tier; none without one."""
    if (local := _asked(job)) is None:
        return {}
    values: dict[str, str] = {
        names.ENV_LOCAL: PATH,
        names.ENV_LOCAL_EVERY: seconds_or_auto(local.every),
        names.ENV_LOCAL_MEDIUM: local.medium.value,
    }
    if local.size_limit is not None:
        values[names.ENV_LOCAL_BYTES] = str(int(local.size_limit.value))
    return values


def node(job: JobSnapshot) -> list[Manifest]:
    """Return the variable with the node's name, so that copies go to another node."""
    field = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    return [{"name": str(names.ENV_NODE), "valueFrom": field}] if _asked(job) else []


def sources(job: JobSnapshot) -> list[Manifest]:
    """Return the source of its volume; none without one."""
    if (local := _asked(job)) is None:
        return []
    empty = {"medium": local.medium.value, "sizeLimit": local.size_limit}
    return [{"emptyDir": {key: str(value) for key, value in empty.items() if value}}]


def seconds_or_auto(every: AutoOrDuration) -> str:
    """Return an interval as the trainer reads it."""
    return "auto" if every.duration is None else f"{every.duration.exact_seconds}s"
