"""The containers of a worker's pod: which of them trains, and how and when they ended. Pure.

Service meshes, secret stores and log shippers inject their own containers into pods when these are
created. So neither the number nor the order of the containers shows which one is ours.
"""

from collections.abc import Iterator
from datetime import datetime

from spotrun.api.spec.template import TRAINER
from spotrun.observe.kube_objects import ContainerStatus, PodObject, Terminated

_ALWAYS = "Always"
_GUESSED = frozenset({"Unknown", "ContainerStatusUnknown"})
"""The reasons that containerd and the kubelet give for a container that ended while they did not
run."""


def trainer_of(pod: PodObject) -> str:
    """Return the name of the container that trains; empty if it is unknown.

    The operator writes the name, as the template has it, on the pods that it creates. A pod of an
    older operator lacks it: there it is the container called `trainer`, or the only one.
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
    """Whether a container was found when it had already ended, at an unknown time."""
    ended = (one.state.terminated for one in _to_end(pod))
    return any(one is not None and one.reason in _GUESSED for one in ended)


def _to_end(pod: PodObject) -> Iterator[ContainerStatus]:
    """Return all containers that hold the pod's resources until they end.

    A sidecar among the init containers is told to end only after the others. A container that was
    never started does not have to end.
    """
    yield from pod.status.container_statuses
    inits = pod.spec.init_containers
    sidecars = {one.name for one in inits if one.restart_policy == _ALWAYS}
    for status in pod.status.init_container_statuses:
        if status.name in sidecars and status.state.waiting is None:
            yield status
