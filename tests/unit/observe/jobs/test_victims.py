"""Which jobs can make room for another one, as the caches show them."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import msgspec
import pytest

from spotrun.api.capacitypool import Capacity
from spotrun.api.field_types.text_values import Time
from spotrun.api.names import LABEL_JOB, LABEL_JOB_UID, LABEL_LENT, LABEL_QUEUE
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client
from spotrun.money.shares import Resources
from spotrun.observe.jobs.caches import JobCaches
from spotrun.observe.jobs.victims import Victims
from spotrun.observe.kube_objects import JobObject, NodeObject, PodObject
from spotrun.observe.pools.caches import PoolCaches
from spotrun.policies.placement.queueing.giving_way import REST
from spotrun.state.names import worker_name
from tests.support.jobs.builders import NOW, a_job, a_spec, ago

HIGH = a_job(1, priority=5).with_worker(0, node=None, unschedulable="no").with_facts(namespace="ns")
ONE = Resources(gpus=1)


class Cluster:
    """Caches filled by hand; nodes have four GPUs, and each worker requests one."""

    def __init__(self) -> None:
        self.spot: set[str] = set()
        self.closed: set[str] = set()
        self.lent: set[str] = set()  # nodes of workers that are lent
        self.jobs = JobCaches(
            cast("Client", Mock()),
            namespace=None,
            wake=lambda _: None,
            job_changed=lambda *_: None,
            pod_changed=lambda *_: None,
            node_changed=lambda *_: None,
        )
        pools = SimpleNamespace(
            place=lambda node: ("p", Capacity.SPOT) if node.metadata.name in self.spot else None,
            lets_in=lambda _, node: node.metadata.name not in self.closed,
        )
        self.pools = cast("PoolCaches", pools)

    def victims(self, **options: bool) -> Victims:
        return Victims(self.jobs, self.pools, lambda *_: None, lambda: NOW, **options)

    def node(self, name: str) -> None:
        meta = {"name": name, "uid": name, "resourceVersion": "1"}
        content = {"metadata": meta, "status": {"allocatable": {"nvidia.com/gpu": "4"}}}
        self.jobs.reflectors["nodes"].store.put(msgspec.convert(content, NodeObject))

    def job(
        self, name: str, *nodes: str, namespace: str = "ns", labels: Any = None, **facts: Any
    ) -> None:
        status = facts.pop("status", {})
        key = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "1"}
        meta = {**key, "labels": labels or {}, **facts.pop("meta", {})}
        spec = a_spec(len(nodes), **facts).manifest()
        status = {"nextWorkerId": len(nodes), "phase": "Running", **status}
        content = {"metadata": meta, "spec": spec, "status": status}
        made = msgspec.json.decode(msgspec.json.encode(content), type=JobObject)
        self.jobs.objects.store.put(made)
        for worker_id, node in enumerate(nodes):
            pod = _pod(name, namespace, worker_id, node, is_lent=node in self.lent)
            self.jobs.reflectors["pods"].store.put(pod)

    def found(self, **options: bool) -> dict[str, str]:
        """Return the nodes of each job that may give way, in the order in which workers leave."""
        those = self.victims(**options).of_lower_priority(HIGH.snapshot())
        return {o.victim.job: "".join(h.node for h in o.victim.workers) for o in those}


def _pod(job: str, namespace: str, worker_id: int, node: str, *, is_lent: bool) -> PodObject:
    name = worker_name(job, job, worker_id)
    requests = {"resources": {"requests": {"nvidia.com/gpu": "1"}}}
    meta = {
        "name": name,
        "namespace": namespace,
        "uid": name,
        "resourceVersion": "1",
        "labels": {str(LABEL_JOB): job, str(LABEL_JOB_UID): job}
        | ({str(LABEL_LENT): "true"} if is_lent else {}),
        "ownerReferences": [{"uid": job, "controller": True, "name": job}],
    }
    spec = {"nodeName": node, "containers": [requests]}
    return msgspec.convert({"metadata": meta, "spec": spec}, PodObject)


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    for node in "abcd":
        made.node(node)
    return made


def test_jobs_of_lower_priority_and_of_the_same_namespace_can_make_room(cluster: Cluster) -> None:
    cluster.job("low", "a", "b")
    cluster.job("equal", "a", priority=5)
    cluster.job("far", "a", namespace="other")
    cluster.job("queued", "a", labels={str(LABEL_QUEUE): "team"})
    cluster.job("leaving", "a", meta={"deletionTimestamp": "2026-03-02T12:00:00Z"})
    cluster.job("over", "a", status={"phase": "Succeeded"})
    cluster.job("held", "a", status={"suspendedBy": ["User"]})
    cluster.job("waits")
    assert cluster.found().keys() == {"ns/low"}
    assert cluster.found(across_namespaces=True).keys() == {"ns/low", "other/far"}


def test_stable_workers_leave_first_and_then_the_newest(cluster: Cluster) -> None:
    cluster.spot = {"a", "d"}
    cluster.job("low", "a", "b", "c", "d")
    assert cluster.found() == {"ns/low": "cbda"}


def test_lent_workers_leave_before_all_others(cluster: Cluster) -> None:
    cluster.spot, cluster.lent = {"a", "d"}, {"a", "c"}
    cluster.job("low", "a", "b", "c", "d")
    assert cluster.found() == {"ns/low": "cabd"}


def test_smaller_sizes_are_those_of_the_spec_unless_the_script_refused_others(
    cluster: Cluster,
) -> None:
    cluster.job("low", "a", "b", "c", min=1, sizes=[1, 2, 3])
    cluster.job("rigid", "a", "b", min=2)
    sizes = {
        one.victim.job: one.victim.smaller_sizes
        for one in cluster.victims().of_lower_priority(HIGH.snapshot())
    }
    assert sizes == {"ns/low": (1, 2), "ns/rigid": ()}


def test_who_got_its_room_back_a_moment_ago_may_not_be_asked(cluster: Cluster) -> None:
    for name, rested in (("just", REST - timedelta(seconds=1)), ("long", REST)):
        until = Time.of(ago(rested.total_seconds()))
        given = {"to": "ns/x", "uid": "x", "workers": 1, "since": str(until), "until": str(until)}
        cluster.job(name, "a", status={"givesWay": given})
    found = cluster.victims().of_lower_priority(HIGH.snapshot())
    assert {one.key: one.may_be_asked for one in found} == {
        Key("ns", "just"): False,
        Key("ns", "long"): True,
    }


def test_who_is_about_to_give_all_is_seen_and_not_asked_again(cluster: Cluster) -> None:
    given = {"to": "ns/high", "workers": 0, "since": str(Time.of(NOW))}
    for name, uid in (("for-high", "high"), ("for-another", "x")):
        status = {"suspendedBy": ["Preemption"], "givesWay": {**given, "uid": uid}}
        cluster.job(name, "a", status=status)
    job = HIGH.with_facts(uid="high").snapshot()
    (found,) = cluster.victims().of_lower_priority(job)
    assert (found.key.name, found.may_be_asked) == ("for-high", False)


def test_what_jobs_have_given_is_found_with_and_without_pods_until_they_have_it_back(
    cluster: Cluster,
) -> None:
    given = {"to": "ns/high", "uid": "high", "workers": 0, "since": str(Time.of(NOW))}
    cluster.job("gives", "a", status={"givesWay": given})
    cluster.job("has-given", status={"givesWay": given})
    cluster.job("has-it-back", "b", status={"givesWay": {**given, "until": str(Time.of(NOW))}})
    cluster.job("for-another", "c", status={"givesWay": {**given, "uid": "x"}})
    assert {key.name for key in cluster.victims().given_to("high")} == {"gives", "has-given"}


def test_a_claim_counts_the_nodes_of_victims_that_its_workers_may_use(cluster: Cluster) -> None:
    cluster.job("low", "a", "a", "b", "c")
    cluster.closed = {"b"}
    victims = cluster.victims()
    found = [one.victim for one in victims.of_lower_priority(HIGH.snapshot())]
    claim = victims.claim(HIGH.with_facts(requests=ONE).snapshot(), 1, found)
    assert (claim.missing, claim.requests) == (1, ONE)
    assert {node: free.gpus for node, free in claim.free.items()} == {"a": 2, "c": 3}


def test_workers_that_were_asked_from_pools_find_no_room_elsewhere(cluster: Cluster) -> None:
    cluster.job("low", "a", "b")
    cluster.spot = {"b"}
    victims = cluster.victims()
    found = [one.victim for one in victims.of_lower_priority(HIGH.snapshot())]
    bound = HIGH.with_worker(0, node=None, unschedulable="no", pools=("p",))
    assert victims.claim(bound.snapshot(), 1, found).free.keys() == {"b"}
    avoids = HIGH.with_worker(0, node=None, unschedulable="no", avoids=("a",))
    assert victims.claim(avoids.snapshot(), 1, found).free.keys() == set()


def test_room_on_nodes_in_no_pool_is_counted_by_what_workers_leave(cluster: Cluster) -> None:
    cluster.job("low", "a", "a", "b")
    cluster.spot, cluster.closed = {"c"}, {"d"}
    assert cluster.victims().free_strays(HIGH.with_facts(requests=ONE).snapshot()) == 2 + 3
    assert cluster.victims().placed(Key("ns", "low")) == 3
