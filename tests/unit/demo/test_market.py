import pytest

from demo.market import POOLS, NewNode, NodeRequirement, first_nodes, replacement, suits

SPOT_A, *_ = POOLS
SPOT = NodeRequirement("karpenter.sh/capacity-type", "In", ("spot",))
NOT_SPOT = NodeRequirement("karpenter.sh/capacity-type", "NotIn", ("spot",))
ZONE_A = NodeRequirement("topology.kubernetes.io/zone", "In", ("us-east-1a",))
ZONE_B = NodeRequirement("topology.kubernetes.io/zone", "In", ("us-east-1b",))


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


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param((), "spot-b-2", id="any node will do"),
        pytest.param(((SPOT, ZONE_A),), "spot-a-2", id="only the zone of the one that was lost"),
        pytest.param(((SPOT, ZONE_A), (SPOT, ZONE_B)), "spot-b-2", id="both zones"),
        pytest.param(((ZONE_A,),), "spot-a-2", id="spot if it may be"),
        pytest.param(((NOT_SPOT,),), "steady-2", id="nothing that is taken away"),
        pytest.param(((NodeRequirement("gpu", "In", ("h100",)),),), "spot-b-2", id="nothing suits"),
    ],
)
def test_a_replacement_suits_the_worker_that_waits(
    terms: tuple[tuple[NodeRequirement, ...], ...], expected: str
) -> None:
    assert expected == replacement("spot-a-1", {"spot-a-1", "spot-b-1", "steady-1"}, terms).name


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ((), True),
        (((SPOT,),), True),
        (((SPOT, ZONE_B),), False),
        (((SPOT, ZONE_B), (SPOT, ZONE_A)), True),
        (((NOT_SPOT,),), False),
        (((NodeRequirement("kubernetes.io/hostname", "NotIn", ("spot-a-1",)),),), True),
    ],
)
def test_whether_a_node_suits_a_pod(
    terms: tuple[tuple[NodeRequirement, ...], ...], *, expected: bool
) -> None:
    assert expected == suits(NewNode("spot-a-2", SPOT_A), terms)
