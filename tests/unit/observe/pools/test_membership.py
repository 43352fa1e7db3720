"""Which pool a node belongs to, and how the market's labels are read."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devcluster.platforms import Platform, pool_labels
from spotrun.api.capacitypool import Capacity, CapacityPoolSpec
from spotrun.observe.nodes.cloud_labels import (
    Identity,
    accelerator_of,
    capacity_mark,
    identity_of,
    region_of,
)
from spotrun.observe.pools.membership import (
    belongs,
    declared_for,
    discovered_spec,
    match_labels,
    other_name,
    pool_name,
)

TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
SPOT = {"karpenter.sh/capacity-type": "spot"}
NODE = {
    TYPE: "g5.xlarge",
    ZONE: "us-east-1b",
    "topology.kubernetes.io/region": "us-east-1",
    "team": "vision",
    **SPOT,
}


def a_spec(capacity: Capacity = Capacity.SPOT, **spec: Any) -> CapacityPoolSpec:
    return CapacityPoolSpec.model_validate({"capacity": capacity, **spec})


@pytest.mark.parametrize("platform", [p for p in Platform if p is not Platform.PLAIN])
def test_the_market_in_every_platforms_dialect(platform: Platform) -> None:
    labels = pool_labels(platform, zone="us-east-1b").labels
    assert identity_of(labels) == Identity("g5.xlarge", "us-east-1b", Capacity.SPOT)
    assert region_of(labels) == "us-east-1"
    (label,) = capacity_mark(labels)
    assert label in labels
    on_demand = pool_labels(platform, capacity="on-demand", zone="us-east-1b").labels
    assert identity_of(on_demand) == Identity("g5.xlarge", "us-east-1b", Capacity.ON_DEMAND)


def test_labels_from_before_kubernetes_1_17() -> None:
    labels = {
        "beta.kubernetes.io/instance-type": "n1-standard-4",
        "failure-domain.beta.kubernetes.io/zone": "us-central1-a",
        "failure-domain.beta.kubernetes.io/region": "us-central1",
    }
    assert identity_of(labels) == Identity("n1-standard-4", "us-central1-a", Capacity.ON_DEMAND)
    assert region_of(labels) == "us-central1"


def test_a_node_of_no_known_type_is_in_no_line_of_the_market() -> None:
    assert identity_of({ZONE: "a", **SPOT}) is None


@pytest.mark.parametrize(
    ("labels", "model"),
    [
        ({"karpenter.k8s.aws/instance-gpu-name": "a10g"}, "a10g"),
        ({"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}, "nvidia-h100-80gb"),
        ({"nvidia.com/gpu.product": "NVIDIA-A10G"}, "nvidia-a10g"),
        ({TYPE: "p4d.24xlarge"}, "p4d"),
        ({TYPE: "a2-highgpu-1g"}, "a2-highgpu"),
        ({TYPE: "Standard_NC6s_v3"}, "standard_nc6s_v3"),
        ({}, ""),
    ],
)
def test_the_gpus_model_or_what_stands_for_it(labels: dict[str, str], model: str) -> None:
    assert accelerator_of(labels) == model


@pytest.mark.parametrize(
    ("identity", "name"),
    [
        (Identity("g5.xlarge", "us-east-1b", Capacity.SPOT), "spot-g5-xlarge-us-east-1b"),
        (Identity("Standard_NC6s_v3", "", Capacity.RESERVED), "reserved-standard-nc6s-v3"),
        (
            Identity("a2-highgpu-1g", "us-central1-a", Capacity.ON_DEMAND),
            "on-demand-a2-highgpu-1g-us-central1-a",
        ),
    ],
)
def test_a_pool_that_is_found_has_a_name_to_read(identity: Identity, name: str) -> None:
    assert pool_name(identity) == name


@given(
    st.builds(
        Identity,
        st.text("abzAZ09._-/", min_size=1, max_size=90),
        st.text("abz09-", max_size=40),
        st.sampled_from(Capacity),
    )
)
@settings(max_examples=100)
def test_every_name_is_one_that_labels_and_objects_can_have(identity: Identity) -> None:
    for name in (pool_name(identity), other_name(identity)):
        assert re.fullmatch("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name)


def test_long_names_that_begin_alike_differ() -> None:
    first, second = (Identity("x" * 80 + end, "a", Capacity.SPOT) for end in "12")
    assert pool_name(first) != pool_name(second)


@pytest.mark.parametrize(
    ("spec", "does"),
    [
        ({"instance_types": ("g5.xlarge", "g6.xlarge")}, True),
        ({"instance_types": ("g6.xlarge",)}, False),
        ({"instance_types": ("g5.xlarge",), "zones": ("us-east-1a",)}, False),
        ({"instance_types": ("g5.xlarge",), "zones": ("us-east-1b",)}, True),
        ({"instance_types": ("g5.xlarge",), "region": "eu-west-1"}, False),
        ({"node_selector": {"team": "vision"}}, True),
        ({"node_selector": {"team": "speech"}}, False),
        ({"instance_types": ("g5.xlarge",), "capacity": Capacity.ON_DEMAND}, False),
    ],
)
def test_a_node_belongs_to_a_pool_that_describes_it(spec: dict[str, Any], does: bool) -> None:
    assert belongs(a_spec(**spec), NODE) is does


def test_an_admins_labels_say_what_the_platform_does_not() -> None:
    own = {TYPE: "g5.xlarge", "pool": "cheap"}
    assert belongs(a_spec(node_selector={"pool": "cheap"}), own)
    assert not belongs(a_spec(instance_types=("g5.xlarge",)), own), "it says nothing of spot"
    assert belongs(a_spec(Capacity.ON_DEMAND, instance_types=("g5.xlarge",)), own)


def test_the_first_by_name_of_several_declared_pools_has_the_node() -> None:
    pools = [
        ("b", a_spec(instance_types=("g5.xlarge",))),
        ("a", a_spec(zones=None, node_selector=SPOT)),
    ]
    assert declared_for(pools, NODE) == "a"
    assert declared_for(pools, {TYPE: "c7i.large"}) is None


def test_a_pool_that_is_found_asks_for_nodes_as_its_nodes_are() -> None:
    identity = identity_of(NODE)
    assert identity is not None
    spec = discovered_spec(identity, NODE)
    assert belongs(spec, NODE)
    assert spec.region == "us-east-1"
    assert match_labels(spec, {}) == {
        TYPE: ("g5.xlarge",),
        ZONE: ("us-east-1b",),
        "karpenter.sh/capacity-type": ("spot",),
    }


def test_a_declared_pool_asks_for_capacity_as_its_nodes_state_it() -> None:
    spec = a_spec(instance_types=("g5.xlarge", "g6.xlarge"))
    assert match_labels(spec, {}) == {TYPE: ("g5.xlarge", "g6.xlarge")}
    assert match_labels(spec, NODE)["karpenter.sh/capacity-type"] == ("spot",)
