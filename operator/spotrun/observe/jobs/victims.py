"""The jobs that can make room for another one, as the caches show them. Pure except for these.

They are looked up when a gang lacks nodes, and not kept: that is rare, and prices often change.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from spotrun.api.capacitypool import Capacity
from spotrun.api.names import LABEL_LENT
from spotrun.kube.resource import Key
from spotrun.money.shares import Resources, left, times_in, total
from spotrun.observe.jobs.caches import JobCaches
from spotrun.observe.kube_objects import JobObject, NodeObject, PodObject
from spotrun.observe.pools.caches import PoolCaches
from spotrun.observe.pools.objects import is_over
from spotrun.observe.resources import requests_of, resources_of
from spotrun.policies.placement.queueing.giving_way import rests, without_node
from spotrun.policies.placement.queueing.preemption import Claim, Held, Victim
from spotrun.policies.pool.eligibility import offers
from spotrun.policies.report.interruption_price import shrink_usd, suspension_usd
from spotrun.state.names import worker_id_of
from spotrun.state.sizes import allowed
from spotrun.state.snapshot import Agent, JobSnapshot
from spotrun.state.stored.workers import GivenWay
from spotrun.state.view import holds_back

AgentOf = Callable[[str, int], Agent | None]


@dataclass(frozen=True)
class Candidate:
    """A job that could make room, and whether it may be asked to."""

    key: Key
    victim: Victim
    may_be_asked: bool  # False: it has just got its room back, or already gives everything


def name_of(key: Key) -> str:
    """Return a job's name as messages show it."""
    return f"{key.namespace}/{key.name}"


class Victims:
    """Looks for jobs that can make room for another one, and for the room on their nodes."""

    def __init__(
        self,
        jobs: JobCaches,
        pools: PoolCaches,
        agent_of: AgentOf,
        wall: Callable[[], datetime],
        *,
        across_namespaces: bool = False,
    ) -> None:
        self._jobs = jobs
        self._pools = pools
        self._agent_of = agent_of
        self._wall = wall
        self._across_namespaces = across_namespaces

    def reaches(self, namespace: str, other: str) -> bool:
        """Whether jobs of a namespace may take workers from those of another one."""
        return self._across_namespaces or namespace == other

    def of_lower_priority(self, job: JobSnapshot) -> Iterator[Candidate]:
        """Yield the jobs with workers on nodes from which a job may take some."""
        for one in self._jobs.objects.store:
            meta = one.metadata
            is_other = meta.uid != job.uid and meta.deletion_timestamp is None
            if is_other and not meta.labels.queue and self.reaches(job.namespace, meta.namespace):
                found = self._candidate(one, job)
                if found is not None:
                    yield found

    def claim(self, job: JobSnapshot, missing: int, victims: list[Victim]) -> Claim:
        """Return the claim of a job on the nodes that have workers of these victims."""
        names = {held.node for victim in victims for held in victim.workers}
        nodes = (self._jobs.node(name) for name in names)
        may_use = self._may_use(job)
        free = {n.metadata.name: self._free(n) for n in nodes if n is not None and may_use(n)}
        return Claim(missing, job.requests, free)

    def free_strays(self, job: JobSnapshot) -> int:
        """Return how many workers of a job fit on nodes that are in no pool."""
        strays = (node for node in self._jobs.nodes() if self._pools.place(node) is None)
        fitting = (node for node in strays if self._pools.lets_in(job, node))
        return sum(times_in(job.requests, self._free(node)) for node in fitting)

    def given_to(self, uid: str) -> dict[Key, GivenWay]:
        """Return what jobs give to the job of that UID, and have not got back."""
        found: dict[Key, GivenWay] = {}
        for one in self._jobs.objects.store:
            key = Key(one.metadata.namespace, one.metadata.name)
            known = self._jobs.spec_and_state(key)
            given = known[1].gives_way if known is not None else None
            if given is not None and given.uid == uid and given.until is None:
                found[key] = given
        return found

    def placed(self, key: Key) -> int:
        """Return how many workers of a job have a node, also those that are about to leave it."""
        return len(self._on_nodes(key))

    def _candidate(self, one: JobObject, job: JobSnapshot) -> Candidate | None:
        key = Key(one.metadata.namespace, one.metadata.name)
        found = self._jobs.spec_and_state(key)
        if found is None or found[0].priority >= job.spec.priority:
            return None
        spec, state = found
        given, is_held = state.gives_way, holds_back(state)
        if is_held and (given is None or given.uid != job.uid):
            return None  # its workers leave anyway
        pods = {n: p for n, p in self._on_nodes(key).items() if not p.metadata.deletion_timestamp}
        if not pods:
            return None
        sizes = allowed(spec.workers) if state.restarts.sizes.held is None else ()
        leaving = sorted(pods, key=lambda worker_id: self._stays(worker_id, pods[worker_id]))
        victim = Victim(
            name_of(key),
            tuple(Held(pods[n].spec.node_name or "", requests_of(pods[n])) for n in leaving),
            tuple(size for size in sizes if size < len(pods)),
            shrink_usd(state, in_process=self._is_in_process(one.metadata.uid, pods)),
            suspension_usd(state),
        )
        may_be_asked = not is_held and not rests(given, self._wall())
        return Candidate(key, victim, may_be_asked)

    def _on_nodes(self, key: Key) -> dict[int, PodObject]:
        """Return the pods of a job's workers that have a node, by worker id."""
        uid = self._jobs.uid_of(key) or ""
        pods = ((worker_id_of(p.metadata.name, key.name, uid), p) for p in self._jobs.pods_of(key))
        return {
            worker_id: pod
            for worker_id, pod in pods
            if worker_id is not None and pod.spec.node_name and not is_over(pod)
            if self._jobs.is_worker(pod)
        }

    def _stays(self, worker_id: int, pod: PodObject) -> tuple[bool, bool, int]:
        """Rank a worker by how late it leaves a shrinking job, as policies/workers/policy.py does.

        Lent workers leave first, then those on stable capacity, then the newest.
        """
        is_lent = pod.metadata.labels.get(LABEL_LENT) == "true"
        return (not is_lent, self._is_spot(pod), -worker_id)

    def _is_spot(self, pod: PodObject) -> bool:
        node = self._jobs.node(pod.spec.node_name or "")
        place = self._pools.place(node) if node is not None else None
        return place is not None and place[1] is Capacity.SPOT

    def _is_in_process(self, uid: str, worker_ids: Iterable[int]) -> bool:
        agents = (self._agent_of(uid, worker_id) for worker_id in worker_ids)
        return all(agent is not None and agent.report.in_process for agent in agents)

    def _may_use(self, job: JobSnapshot) -> Callable[[NodeObject], bool]:
        waiting = [worker.pod for worker in without_node(job)]
        found = offers(job)
        offered = {pool.name for pool in (*found.spot, *found.stable)}
        asked = {name for pod in waiting for name in pod.pools}
        is_bound = all(pod.pools for pod in waiting)
        avoided = {name for pod in waiting for name in pod.avoids}

        def may_use(node: NodeObject) -> bool:
            place = self._pools.place(node)
            if node.metadata.name in avoided or not self._pools.lets_in(job, node):
                return False
            if is_bound:
                return place is not None and place[0] in asked
            return place is None or place[0] in offered

        return may_use

    def _free(self, node: NodeObject) -> Resources:
        pods = (pod for pod in self._jobs.pods_on(node.metadata.name) if not is_over(pod))
        return left(resources_of(node.status.allocatable), total(map(requests_of, pods)))
