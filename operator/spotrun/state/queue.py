"""The queue of a job: its Workloads in Kueue, each of which asks for workers, and the answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Flavor:
    """The nodes that a queue has chosen for workers."""

    node_labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    tolerations: tuple[dict[str, Any], ...] = field(default=(), hash=False)


ANY_NODES = Flavor()


@dataclass(frozen=True)
class Workload:
    """A request for workers, and what Kueue has answered."""

    name: str
    uid: str
    version: str
    number: int = 0  # of the requests of a job, the first is 0
    count: int = 0  # the workers that it asks for
    least: int | None = None  # it takes so many as well
    asks_as_now: bool = True  # for workers as the template has them now, of the queue as it is now
    priority: int | None = None
    boost: int | None = None  # what is added to that, as its annotation says; None: it says nothing
    is_owned: bool = True  # by the job; else it was made for the job, and nobody uses it yet
    is_active: bool = True
    is_reserved: bool = False  # it holds quota
    is_admitted: bool = False
    is_ready: bool = False  # as Kueue was told: its workers are
    admitted: int = 0  # the workers that it was admitted with
    given_back: int = 0  # the quota of so many of these is free again
    evicted: str = ""  # Kueue's reason, until it is admitted again
    words: str = ""  # Kueue's own, on why it waits or was evicted
    is_finished: bool = False
    flavor: Flavor = ANY_NODES

    @property
    def workers(self) -> int:
        """The workers that may run by it now."""
        if not self.is_admitted or self.evicted or not self.is_active or not self.is_owned:
            return 0
        return self.admitted - self.given_back if self.asks_as_now else 0


@dataclass(frozen=True)
class Queue:
    """The queue that a job names, and the job's requests there."""

    name: str
    api_version: str = ""  # of Workloads; "": the cluster serves none, or it is not asked
    priority_class: str = ""
    priority: int | None = None  # of that class; None: there is no such class
    most_boost: int = 0  # what the price of an interruption adds to a priority; 0: nothing is said
    requests: tuple[Workload, ...] = ()  # by number
    prebuilt: str = ""  # the request that another cluster's Kueue has made: there is no other

    @cached_property
    def open_requests(self) -> tuple[Workload, ...]:
        """The requests that are not finished."""
        return tuple(one for one in self.requests if not one.is_finished)

    @cached_property
    def workers(self) -> int:
        """The workers that may run now."""
        return sum(one.workers for one in self.open_requests)

    @cached_property
    def flavor(self) -> Flavor:
        """The nodes that workers have to run on."""
        given = (one.flavor for one in self.open_requests if one.workers)
        return next(given, ANY_NODES)

    @cached_property
    def evicted(self) -> Workload | None:
        """The first request that Kueue has evicted."""
        return next((one for one in self.open_requests if one.evicted), None)

    @property
    def _lacks_prebuilt(self) -> str:
        if not self.requests:
            return (
                f"it waits for Workload {self.prebuilt}, which Kueue of another cluster makes: "
                "there is none of that name that no other job has"
            )
        if any(not one.asks_as_now for one in self.open_requests):
            return (
                f"Workload {self.prebuilt} was made for other workers, or another queue, than the "
                "job has: operators of both clusters must be of the same version"
            )
        return ""

    @property
    def words(self) -> str:
        """Say what the queue has answered."""
        if not self.api_version:
            return (
                f"the job names queue {self.name}, and this operator knows of no Kueue: install it "
                "and set kueue.enabled in the chart, or take the label off"
            )
        if self.priority_class and self.priority is None:
            return f"there is no WorkloadPriorityClass {self.priority_class}: create it"
        if self.prebuilt and (why := self._lacks_prebuilt):
            return why
        if any(not one.is_active for one in self.open_requests):
            return f"a Workload of queue {self.name} is deactivated: set its spec.active to true"
        if self.evicted is not None:
            said = _EVICTIONS.get(self.evicted.evicted, self.evicted.evicted)
            return f"queue {self.name} took its quota back: {said}; it waits there again"
        waiting = (one.words for one in self.open_requests if not one.is_admitted and one.words)
        said = next(waiting, "")
        return f"it waits in queue {self.name}" + (f": {said}" if said else "")


_EVICTIONS = {
    "Preempted": "a job that comes first needs it",
    "PodsReadyTimeout": "its workers were not ready in Kueue's time",
    "AdmissionCheck": "an admission check does not hold any more",
    "ClusterQueueStopped": "the ClusterQueue was stopped",
    "LocalQueueStopped": "the LocalQueue was stopped",
    "NodeFailures": "nodes of it have failed",
    "Deactivated": "somebody deactivated its Workload",
}
"""Kueue's reasons for an eviction, in words."""
