"""`kubectl tjob nodepools`: from CapacityPools to Karpenter's objects."""

from typing import Any

import msgspec
import pytest

from spotrun.cli.jobs.pool_model import Pool
from spotrun.cli.nodepools.flags import MINUTES_LOST
from spotrun.cli.nodepools.manifests import node_pools, overlays

NODE_CLASS = ("EC2NodeClass", "default")
FOUND = {"app.kubernetes.io/managed-by": "spotrun"}


def a_pool(name: str = "a", rate: str | None = None, **spec: Any) -> Pool:
    meta = {"name": name, "generation": 1, "labels": spec.pop("labels", {})}
    meta["generation"] = spec.pop("generation", 1)
    status = {} if rate is None else {"interruptionsPerHour": rate}
    known = {"capacity": "Spot", "instanceTypes": ["g5.xlarge"], **spec}
    return msgspec.convert({"metadata": meta, "spec": known, "status": status}, Pool)


def asked(manifest: dict[str, Any]) -> dict[str, list[str]]:
    spec = manifest["spec"]
    where = spec["template"]["spec"] if "template" in spec else spec
    return {one["key"]: one["values"] for one in where["requirements"]}


def test_a_declared_pool_becomes_a_node_pool() -> None:
    pool = a_pool(
        zones=["z1", "z2"],
        nodeSelector={
            "karpenter.sh/nodepool": "gpu-spot",
            "karpenter.k8s.aws/instance-gpu-name": "a10g",
            "example.com/tier": "cheap",
        },
        tolerations=[
            {"key": "example.com/training", "operator": "Exists"},
            {"key": "b", "value": "1", "effect": "NoExecute"},
        ],
        maxWorkers=16,
    )
    [made] = node_pools([pool], NODE_CLASS).objects
    template = made["spec"]["template"]
    assert made["metadata"] == {"name": "gpu-spot"}
    assert asked(made) == {
        "karpenter.sh/capacity-type": ["spot"],
        "node.kubernetes.io/instance-type": ["g5.xlarge"],
        "topology.kubernetes.io/zone": ["z1", "z2"],
        "karpenter.k8s.aws/instance-gpu-name": ["a10g"],
    }
    assert template["metadata"] == {"labels": {"example.com/tier": "cheap"}}
    assert template["spec"]["taints"] == [
        {"key": "example.com/training", "effect": "NoSchedule"},
        {"key": "b", "value": "1", "effect": "NoExecute"},
    ]
    assert template["spec"]["nodeClassRef"]["group"] == "karpenter.k8s.aws"
    assert made["spec"]["limits"] == {"nodes": "16"}


@pytest.mark.parametrize(
    ("capacity", "word"), [("Spot", "spot"), ("OnDemand", "on-demand"), ("Reserved", "reserved")]
)
def test_each_capacity_type_has_karpenters_word(capacity: str, word: str) -> None:
    [made] = node_pools([a_pool(capacity=capacity)], NODE_CLASS).objects
    assert asked(made)["karpenter.sh/capacity-type"] == [word]


def test_a_pool_that_was_found_gets_none_until_people_change_it() -> None:
    assert node_pools([a_pool(labels=FOUND)], NODE_CLASS).objects == []
    assert node_pools([a_pool(labels=FOUND, generation=2)], NODE_CLASS).objects


def test_pools_that_name_the_same_node_pool_are_left_out_and_named() -> None:
    same: dict[str, Any] = {"nodeSelector": {"karpenter.sh/nodepool": "x"}}
    written = node_pools([a_pool("a", **same), a_pool("b", **same), a_pool("c")], NODE_CLASS)
    assert [one["metadata"]["name"] for one in written.objects] == ["c"]
    assert [note.split(" is left out")[0] for note in written.notes] == [
        "CapacityPool a",
        "CapacityPool b",
    ]


def test_a_toleration_of_every_taint_is_no_taint() -> None:
    written = node_pools([a_pool(tolerations=[{"operator": "Exists"}])], NODE_CLASS)
    assert "taints" not in written.objects[0]["spec"]["template"]["spec"]
    assert "tolerates every taint" in written.notes[0]


@pytest.mark.parametrize(
    ("rate", "declared", "price"),
    [
        ("3", None, {"priceAdjustment": "+25.0%"}),
        ("0.3", None, {"priceAdjustment": "+2.5%"}),
        ("3", "0.42", {"price": "0.525000"}),
        ("100000", None, {"priceAdjustment": "+1000.0%"}),
    ],
)
def test_a_stormy_pool_is_dearer_by_what_its_interruptions_cost(
    rate: str, declared: str | None, price: dict[str, str]
) -> None:
    pool = a_pool(rate=rate, **({} if declared is None else {"usdPerHour": declared}))
    [made] = overlays([pool], MINUTES_LOST).objects
    assert asked(made)["karpenter.sh/capacity-type"] == ["spot"]
    assert {key: made["spec"][key] for key in price} == price
    assert len({"price", "priceAdjustment"} & made["spec"].keys()) == 1


def test_calm_and_stable_pools_have_no_overlay() -> None:
    stable = a_pool("c", rate="3", capacity="OnDemand")
    assert overlays([a_pool("a"), a_pool("b", rate="0.005"), stable], MINUTES_LOST).objects == []
    assert overlays([a_pool("a", rate="3")], 0).objects == []


def test_the_dearer_of_two_that_match_the_same_machine_counts() -> None:
    made = overlays([a_pool("storm", rate="9"), a_pool("calm", rate="1")], MINUTES_LOST).objects
    weights = {one["metadata"]["name"]: one["spec"]["weight"] for one in made}
    assert weights["spotrun-storm"] > weights["spotrun-calm"]
