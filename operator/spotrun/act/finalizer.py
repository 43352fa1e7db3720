"""Our finalizer on pods, and the patch that takes it off: it, no other, and of that very pod."""

from spotrun.api.names import FINALIZER_METERED


def release(uid: str, at: int) -> list[dict[str, object]]:
    """A JSON patch for a pod whose finalizer at this place is ours; Invalid where it is not."""
    path = f"/metadata/finalizers/{at}"
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": path, "value": str(FINALIZER_METERED)},
        {"op": "remove", "path": path},
    ]
