from demo.market import POOLS, first_nodes, replacement


def test_there_are_two_spot_pools_in_two_zones_and_one_on_demand() -> None:
    spot = [pool for pool in POOLS if pool.capacity == "spot"]
    assert (len(spot), len({pool.zone for pool in spot}), len(POOLS)) == (2, 2, 3)


def test_nodes_say_what_they_are_as_their_platform_does() -> None:
    spot, _, steady = first_nodes()
    labels = spot.labels
    assert (
        labels["karpenter.sh/capacity-type"],
        labels["karpenter.sh/nodepool"],
        labels["topology.kubernetes.io/zone"],
        labels["node.kubernetes.io/instance-type"],
    ) == ("spot", "spot-a", "us-east-1a", "g5.xlarge")
    assert steady.labels["karpenter.sh/capacity-type"] == "on-demand"
    assert spot.annotations == {"spotrun.dev/usd-per-hour": "0.31"}


def test_a_lost_node_is_replaced_from_the_other_spot_pool() -> None:
    used = {"spot-a-1", "spot-b-1", "steady-1"}
    assert replacement("spot-a-1", used).name == "spot-b-2"
    assert replacement("spot-b-1", used).name == "spot-a-2"
    assert replacement("spot-b-1", used | {"spot-a-2"}).name == "spot-a-3"
