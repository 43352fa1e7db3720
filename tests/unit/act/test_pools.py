from spotrun.act.pools import discovered_pool
from spotrun.api import load
from spotrun.api.capacitypool import Capacity, CapacityPoolSpec
from spotrun.api.field_types.bounded import LabelValue


def test_a_pool_that_was_found_says_what_its_nodes_are() -> None:
    spec = CapacityPoolSpec(
        instance_types=("g5.xlarge",),
        zones=("us-east-1b",),
        region="us-east-1",
        capacity=Capacity.SPOT,
        node_selector={"karpenter.sh/capacity-type": LabelValue("spot")},
    )
    manifest = discovered_pool("spot-g5-xlarge-us-east-1b", spec)
    assert manifest == {
        "apiVersion": "spotrun.dev/v1alpha1",
        "kind": "CapacityPool",
        "metadata": {
            "name": "spot-g5-xlarge-us-east-1b",
            "labels": {
                "app.kubernetes.io/managed-by": "spotrun",
                "spotrun.dev/capacity": "Spot",
                "node.kubernetes.io/instance-type": "g5.xlarge",
                "topology.kubernetes.io/zone": "us-east-1b",
                "topology.kubernetes.io/region": "us-east-1",
            },
        },
        "spec": {
            "instanceTypes": ["g5.xlarge"],
            "zones": ["us-east-1b"],
            "region": "us-east-1",
            "capacity": "Spot",
            "nodeSelector": {"karpenter.sh/capacity-type": "spot"},
        },
    }
    load(manifest)


def test_what_is_not_known_of_it_is_left_out() -> None:
    spec = CapacityPoolSpec(instance_types=("c7i.large",), capacity=Capacity.ON_DEMAND)
    manifest = discovered_pool("on-demand-c7i-large", spec)
    assert manifest["spec"] == {"instanceTypes": ["c7i.large"], "capacity": "OnDemand"}
    assert "topology.kubernetes.io/zone" not in manifest["metadata"]["labels"]
