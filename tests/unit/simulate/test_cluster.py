"""The virtual cluster: who gets which node, who loses it, and what is paid for it."""

from math import inf

import pytest

from spotrun.api.capacitypool import Capacity
from spotrun.api.names import Reason
from spotrun.simulate.cluster import Cluster
from spotrun.state.actions import Create, Placed, Release, Remove, Withdraw
from tests.unit.simulate.markets import ASKING, GAP, PUBLISHED, a_market

WEST_A, WEST_B = "p3.2xlarge-us-west-2a-spot", "p3.2xlarge-us-west-2b-spot"
ON_DEMAND_A = "p3.2xlarge-us-west-2a-on-demand"


def a_cluster(*pictures: str, asking: bool = False) -> Cluster:
    rules = ASKING if asking else PUBLISHED
    return Cluster(a_market(*pictures, rules=rules), rules)


def at(cluster: Cluster, tick: float) -> None:
    cluster.now = tick * GAP
    cluster.serve()


def pool_of(cluster: Cluster, worker_id: int) -> str | None:
    node = cluster.workers[worker_id].node
    return node.pool.name if node is not None else None


def test_a_worker_waits_until_one_of_its_pools_has_a_node() -> None:
    cluster = a_cluster("..#", "###")
    cluster.do(Create(0, place=Placed(required=(WEST_A,))))

    found = []
    for tick in range(3):
        at(cluster, tick)
        found.append(pool_of(cluster, 0))

    assert found == [None, None, WEST_A]
    assert cluster.workers[0].ready_at == 3 * GAP


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (Placed(), WEST_A),
        (Placed(capacity=Capacity.ON_DEMAND), ON_DEMAND_A),
        (Placed(required=(ON_DEMAND_A, WEST_B)), WEST_B),
        (Placed(required=(WEST_A, WEST_B), preferred=((WEST_B, 50),)), WEST_B),
        (Placed(required=(WEST_A, WEST_B), zone="us-west-2b"), WEST_B),
    ],
    ids=["anywhere", "capacity", "the cheapest", "the preferred", "zone"],
)
def test_of_its_pools_a_worker_gets_what_it_prefers(place: Placed, expected: str) -> None:
    cluster = a_cluster("#", "#")
    cluster.do(Create(0, place=place))

    at(cluster, 0)

    assert pool_of(cluster, 0) == expected


def test_a_pool_gives_no_more_nodes_than_it_has() -> None:
    cluster = a_cluster("2")
    for worker_id in range(3):
        cluster.do(Create(worker_id, place=Placed(required=(WEST_A,))))

    at(cluster, 0)

    assert [pool_of(cluster, worker_id) for worker_id in range(3)] == [WEST_A, WEST_A, None]


def test_when_a_pool_shrinks_those_who_worked_longest_are_lost() -> None:
    cluster = a_cluster("1221")
    for worker_id in range(2):
        cluster.do(Create(worker_id, place=Placed(required=(WEST_A,))))

    for tick in range(4):
        at(cluster, tick)

    gone = [cluster.workers[worker_id].node for worker_id in range(2)]
    assert [node is not None and node.gone_at for node in gone] == [3 * GAP, inf]
    assert [(one.start, one.end, one.was_taken) for one in cluster.leases] == [(0, 3 * GAP, True)]


def test_a_node_is_paid_before_its_worker_runs() -> None:
    cluster = a_cluster("#", asking=True)
    cluster.do(Create(0, place=Placed(required=(WEST_A,))))
    at(cluster, 0)
    worker = cluster.workers[0]

    assert cluster.next_event() == 120
    assert not worker.runs(119)
    assert worker.runs(120)
    assert not worker.is_ready(GAP - 1)
    cluster.now = GAP
    (lease,) = cluster.close()
    assert (lease.start, lease.end) == (0, GAP)


def test_a_node_that_is_taken_before_it_came_leaves_its_pod_waiting() -> None:
    cluster = a_cluster("#.#", asking=True)
    cluster.do(Create(0, place=Placed(required=(WEST_A,))))
    at(cluster, 0.9)

    at(cluster, 1)
    assert pool_of(cluster, 0) is None
    at(cluster, 2)

    assert pool_of(cluster, 0) == WEST_A
    assert [one.was_taken for one in cluster.leases] == [True]


def test_a_removed_worker_costs_nothing_more_and_stays_until_it_is_released() -> None:
    cluster = a_cluster("####")
    cluster.do(Create(0, place=Placed(required=(WEST_A,))))
    at(cluster, 0)
    uid = cluster.workers[0].uid

    cluster.now = GAP
    cluster.do(Remove(0, "another", Reason.RESIZING, ""))
    assert cluster.leases == []
    cluster.do(Remove(0, uid, Reason.RESIZING, ""))
    cluster.now = 2 * GAP
    cluster.do(Release(0, uid))

    assert cluster.workers == {}
    assert [(one.start, one.end) for one in cluster.leases] == [(0, GAP)]


@pytest.mark.parametrize(("tick", "is_withdrawn"), [(0, True), (1, False)])
def test_only_a_worker_without_a_node_is_withdrawn(tick: int, is_withdrawn: bool) -> None:
    cluster = a_cluster(".#")
    cluster.do(Create(0, place=Placed(required=(WEST_A,))))
    at(cluster, tick)

    cluster.do(Withdraw(0, cluster.workers[0].uid, "1", Reason.RESIZING, ""))

    assert (0 not in cluster.workers) is is_withdrawn
