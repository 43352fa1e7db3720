"""The operator's finalizers, and the patch that removes one of them, and nothing else."""

import msgspec

from spotrun.api.names import FINALIZER_METERED
from spotrun.kube.resource import Meta


class _Meta(Meta, frozen=True, rename="camel"):
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] = ()


class Released(msgspec.Struct, frozen=True):
    """The pod as the API server answers the patch."""

    metadata: _Meta

    @property
    def seen_from(self) -> int:
        """The first version in which a cache shows that the finalizer is off.

        If removing the last finalizer deletes the pod, the answer has the version before the
        deletion. A cache that shows that version would have the operator release the pod again.
        """
        meta = self.metadata
        is_deleted = meta.deletion_timestamp is not None and not meta.finalizers
        is_gone = is_deleted and not meta.deletion_grace_period_seconds
        return meta.version + 1 if is_gone else meta.version


def release(uid: str, at: int, name: str = FINALIZER_METERED) -> list[dict[str, object]]:
    """Return a JSON patch that removes our finalizer at this index; Invalid if another is there."""
    path = f"/metadata/finalizers/{at}"
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": path, "value": str(name)},
        {"op": "remove", "path": path},
    ]
