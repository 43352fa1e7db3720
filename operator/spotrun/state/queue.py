"""The queue of a job: its Workloads in Kueue, which ask for workers, and Kueue's answers."""

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
    number: int = 0  # counts a job's requests, from 0
    count: int = 0  # the workers that it asks for
    least: int | None = None  # the fewest workers that it accepts
    asks_as_now: bool = True  # whether it fits the present template and queue
    priority: int | None = None
    boost: int | None = None  # its annotation adds this to that; None: no annotation
    is_owned: bool = True  # by the job; else it was created for the job and is not used yet
    is_active: bool = True
    is_reserved: bool = False  # it holds quota
    is_admitted: bool = False
    is_ready: bool = False  # Kueue was told that its workers are ready
    admitted: int = 0  # the number of workers that was admitted
    given_back: int = 0  # the number of them whose quota is free again
    evicted: str = ""  # Kueue's reason, until it is admitted again
    words: str = ""  # Kueue's message on why it waits or was evicted
    is_finished: bool = False
    flavor: Flavor = ANY_NODES

    @property
    def workers(self) -> int:
        """The number of workers that may run by it now."""
        if not self.is_admitted or self.evicted or not self.is_active or not self.is_owned:
            return 0
        return self.admitted - self.given_back if self.asks_as_now else 0


@dataclass(frozen=True)
class Queue:
    """The queue that a job names, and the job's requests there."""

    name: str
    api_version: str = ""  # of Workloads; "": the cluster serves none, or Kueue is off
    priority_class: str = ""
    priority: int | None = None  # of that class; None: there is no such class
    most_boost: int = 0  # the most that the price of an interruption adds to a priority; 0: off
    requests: tuple[Workload, ...] = ()  # by number
    prebuilt: str = ""  # the only request, if another cluster's Kueue creates it

    @cached_property
    def open_requests(self) -> tuple[Workload, ...]:
        """The requests that are not finished."""
        return tuple(one for one in self.requests if not one.is_finished)

    @cached_property
    def workers(self) -> int:
        """The number of workers that may run now."""
        return sum(one.workers for one in self.open_requests)

    @cached_property
    def flavor(self) -> Flavor:
        """The nodes on which workers must run."""
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
                f"the job waits for Workload {self.prebuilt}, which Kueue of another cluster "
                "creates: it does not exist yet, or another job owns it"
            )
        if any(not one.asks_as_now for one in self.open_requests):
            return (
                f"Workload {self.prebuilt} was made for other workers, or another queue, than the "
                "job has: run the same version of the operator in both clusters"
            )
        return ""

    @property
    def words(self) -> str:
        """Say what the queue answered."""
        if not self.api_version:
            return (
                f"the job names queue {self.name}, but the operator found no Kueue: install Kueue "
                "and set kueue.enabled in the chart, or remove the label"
            )
        if self.priority_class and self.priority is None:
            return f"there is no WorkloadPriorityClass {self.priority_class}: create it"
        if self.prebuilt and (why := self._lacks_prebuilt):
            return why
        if any(not one.is_active for one in self.open_requests):
            return f"a Workload of queue {self.name} is deactivated: set its spec.active to true"
        if self.evicted is not None:
            said = _EVICTIONS.get(self.evicted.evicted, self.evicted.evicted)
            return f"queue {self.name} took the job's quota back: {said}; the job waits there again"
        waiting = (one.words for one in self.open_requests if not one.is_admitted and one.words)
        said = next(waiting, "")
        return f"the job waits in queue {self.name}" + (f": {said}" if said else "")


_EVICTIONS = {
    "Preempted": "a job that comes first needs it",
    "PodsReadyTimeout": "its workers were not ready within Kueue's timeout",
    "AdmissionCheck": "an admission check no longer passes",
    "ClusterQueueStopped": "the ClusterQueue was stopped",
    "LocalQueueStopped": "the LocalQueue was stopped",
    "NodeFailures": "some of its nodes failed",
    "Deactivated": "its Workload was deactivated",
}
"""Kueue's reasons for an eviction, in words."""
