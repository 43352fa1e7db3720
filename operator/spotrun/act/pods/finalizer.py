"""The finalizers of ours, and the patch that removes one, no other, from that very object."""

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

        A pod that goes with its last finalizer is answered as it was, in the version before its
        deletion: a cache that shows that one would have us let go of the pod once more.
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
