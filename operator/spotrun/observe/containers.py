"""The containers of a worker's pod: which of them trains, and how and when they ended. Pure.

Service meshes, secret stores and log shippers put containers of their own into pods as these are
made. So neither the number of containers nor their order says which one is ours.
"""

from collections.abc import Iterator
from datetime import datetime

from spotrun.api.spec.template import TRAINER
from spotrun.observe.kube_objects import ContainerStatus, PodObject, Terminated

_ALWAYS = "Always"
_GUESSED = frozenset({"Unknown", "ContainerStatusUnknown"})
"""The reasons that containerd and the kubelet give for a container that ended while they were
away."""


def trainer_of(pod: PodObject) -> str:
    """Return the name of the container that trains; empty if it cannot be told.

    The operator writes it on the pods that it makes, as the template had it. A pod of an older
    operator does not say it: there it is the one called `trainer`, or the only one.
    """
    names = [container.name for container in pod.spec.containers]
    for name in (pod.metadata.annotations.trainer, TRAINER):
        if name in names:
            return name
    return names[0] if len(names) == 1 else ""


def trainer_end(pod: PodObject) -> Terminated | None:
    """Return how the container that trains has ended; None while it has not."""
    name = trainer_of(pod)
    found = (one for one in pod.status.container_statuses if one.name == name)
    return next((one.state.terminated for one in found), None)


def ended_at(pod: PodObject) -> datetime | None:
    """Return when the last container ended; None while one may still run."""
    ended = [one.state.terminated for one in _to_end(pod)]
    moments = [one.finished_at for one in ended if one is not None and one.finished_at]
    if not moments or len(moments) < len(ended):
        return None
    return max(map(datetime.fromisoformat, moments))


def end_is_guessed(pod: PodObject) -> bool:
    """Whether a container was found ended, so that the time of its end is unknown."""
    ended = (one.state.terminated for one in _to_end(pod))
    return any(one is not None and one.reason in _GUESSED for one in ended)


def _to_end(pod: PodObject) -> Iterator[ContainerStatus]:
    """Return all containers that hold the pod's resources until they end.

    A sidecar among the init containers is told to end only after the others. One that was never
    started has nothing to end.
    """
    yield from pod.status.container_statuses
    inits = pod.spec.init_containers
    sidecars = {one.name for one in inits if one.restart_policy == _ALWAYS}
    for status in pod.status.init_container_statuses:
        if status.name in sidecars and status.state.waiting is None:
            yield status
