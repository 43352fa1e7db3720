"""Room on nodes that is reserved for workers that are not on a node yet.

Jobs that are applied together are decided within milliseconds. Without reservations each of them
would see the same free node, and all but one would wait on a full pool. A reservation holds until
the scheduler has tried the worker: then the worker is on a node, or there was no such room.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from spotrun.kube.resource import Key
from spotrun.money.shares import Resources
from spotrun.observe.kube_objects import PodObject
from spotrun.observe.pools.free_capacity import Room
from spotrun.observe.pools.objects import asked, is_over
from spotrun.observe.resources import requests_of
from spotrun.state.actions import Action, Create
from spotrun.state.names import worker_name
from spotrun.state.snapshot import JobSnapshot


@dataclass
class Promises:
    """The reservations in a `Room`; `changed` is called with the name of each pool affected."""

    room: Room
    changed: Callable[[str], None]
    _held: dict[Key, tuple[str, Resources]] = field(default_factory=dict)  # by the worker's pod
    # The pods that no cache shows yet, by job, and the job of each.
    _unseen: dict[Key, set[Key]] = field(default_factory=dict)
    _job_of: dict[Key, Key] = field(default_factory=dict)

    def make(self, job: JobSnapshot, actions: Iterable[Action]) -> None:
        """Reserve room for the workers to be created, if existing nodes have it."""
        pinned = (one for one in actions if isinstance(one, Create) and one.place.pinned)
        for one in pinned:
            pod = Key(job.namespace, worker_name(job.name, job.uid, one.worker_id))
            self._hold(pod, one.place.required[0], job.requests)
            self._job_of[pod] = owner = Key(job.namespace, job.name)
            self._unseen.setdefault(owner, set()).add(pod)

    def take_back(self, job: Key) -> None:
        """Release the room of workers that no cache shows: they are decided again, or given up."""
        for pod in self._unseen.pop(job, ()):
            del self._job_of[pod]
            self._drop(pod)

    def take_all_back(self) -> None:
        """Release all room: what another leader reserved meanwhile is visible in its pods."""
        for job in tuple(self._unseen):
            self.take_back(job)

    def pod_changed(self, old: PodObject | None, new: PodObject | None) -> None:
        """Process a worker's pod: once the scheduler has tried it, its node counts instead."""
        pod = new or old
        assert pod is not None, "a change has an old or a new side"
        key = Key(pod.metadata.namespace, pod.metadata.name)
        if (job := self._job_of.pop(key, None)) is not None:
            self._unseen[job].discard(key)
        if new is not None and _is_untried(new):
            pools = asked(new)
            if len(pools) == 1 and key not in self._held:
                self._hold(key, pools[0], requests_of(new))
        else:
            self._drop(key)

    def _hold(self, key: Key, pool: str, requests: Resources) -> None:
        self._drop(key)
        self._held[key] = pool, requests
        self.room.promise(pool, requests, 1)
        self.changed(pool)

    def _drop(self, key: Key) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            self.room.promise(*held, -1)
            self.changed(held[0])


def _is_untried(pod: PodObject) -> bool:
    """Whether the scheduler has not tried a pod yet; a gated pod may wait for long."""
    if pod.spec.node_name is not None or is_over(pod) or pod.metadata.deletion_timestamp:
        return False
    return all(one.type != "PodScheduled" for one in pod.status.conditions)
