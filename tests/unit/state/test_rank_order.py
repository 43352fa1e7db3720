from spotrun.state.replicas import along_the_ring
from spotrun.state.snapshot import Node
from tests.support.jobs.builders import (
    a_spot_node,
    a_worker,
)


def test_ranks_go_by_safety_then_by_place() -> None:
    workers = [
        a_worker(0, node=a_spot_node("b", "z1")),
        a_worker(1, node=Node("c", zone="z2")),
        a_worker(2, node=a_spot_node("a", "z1")),
        a_worker(3, node=Node("d", zone="z1")),
        a_worker(4, node=a_spot_node("a", "z1")),
    ]
    assert [worker.worker_id for worker in along_the_ring(workers)] == [3, 1, 2, 4, 0]


def test_spot_begins_in_the_zone_where_on_demand_ends() -> None:
    workers = [
        a_worker(0, node=a_spot_node("n0", "a")),
        a_worker(1, node=a_spot_node("n1", "b")),
        a_worker(2, node=Node("n2", zone="b")),
        a_worker(3, node=Node("n3", zone="a")),
    ]
    zones = [worker.node and worker.node.zone for worker in along_the_ring(workers)]
    assert zones == ["a", "b", "b", "a"]
