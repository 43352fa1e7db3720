from typing import Any

import pytest

from spotrun.act.manifests.affinity import affinity, tolerations
from spotrun.api.capacitypool import Capacity, Toleration, TolerationOperator
from spotrun.api.spec.placement import CapacityPolicy
from spotrun.observe.nodes.cloud_labels import CAPACITY_LABELS, SPOT_TAINTS
from spotrun.state.actions import Placed
from spotrun.state.market import Market, PoolFacts
from tests.support.jobs.builders import a_spec

PLATFORMS = len(CAPACITY_LABELS)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE = "topology.kubernetes.io/zone"
EXISTS = TolerationOperator.EXISTS
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def term(key: str, value: str = "x") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}


def required(given: dict[str, Any] | None, policy: CapacityPolicy) -> list[dict[str, Any]]:
    terms: list[dict[str, Any]] = affinity(given, policy)["nodeAffinity"][REQUIRED][
        "nodeSelectorTerms"
    ]
    return terms


def on_nodes(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def test_spot_is_any_platforms_spot() -> None:
    terms = required(None, CapacityPolicy.SPOT)
    assert len(terms) == PLATFORMS
    assert terms[0] == term("karpenter.sh/capacity-type", "spot")


def test_on_demand_is_no_platforms_spot() -> None:
    (only,) = required(None, CapacityPolicy.ON_DEMAND)
    assert len(only["matchExpressions"]) == PLATFORMS
    assert {one["operator"] for one in only["matchExpressions"]} == {"NotIn"}


def test_mixed_asks_for_nothing_and_prefers_spot() -> None:
    wishes = {PREFERRED: [{"weight": 1, "preference": term("a")}]}
    result = affinity({"nodeAffinity": wishes}, CapacityPolicy.MIXED)
    assert REQUIRED not in result["nodeAffinity"]
    assert len(result["nodeAffinity"][PREFERRED]) == PLATFORMS + 1
    assert result["nodeAffinity"][PREFERRED][0] == wishes[PREFERRED][0]


def test_what_the_user_requires_must_hold_as_well() -> None:
    fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    terms = required(on_nodes(term("a"), fields), CapacityPolicy.SPOT)
    assert len(terms) == 2 * PLATFORMS
    assert terms[0]["matchExpressions"] == [
        *term("a")["matchExpressions"],
        *term("karpenter.sh/capacity-type", "spot")["matchExpressions"],
    ]
    assert terms[PLATFORMS]["matchFields"] == fields["matchFields"]


def test_a_term_that_matches_no_node_does_not_begin_to_match() -> None:
    assert len(required(on_nodes(term("a"), {}), CapacityPolicy.SPOT)) == PLATFORMS
    assert required(on_nodes({}), CapacityPolicy.SPOT) == [{}]


def test_nodes_to_avoid_and_the_capacity_hold_together() -> None:
    result = affinity(on_nodes(term("a")), CapacityPolicy.ON_DEMAND, ["n1"])
    (only,) = result["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert len(only["matchExpressions"]) == PLATFORMS + 2
    avoided = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n1"]}
    assert only["matchExpressions"][-1] == avoided


def test_other_affinities_are_left_alone() -> None:
    given: dict[str, Any] = {"podAffinity": {"x": []}, "nodeAffinity": None}
    result = affinity(given, CapacityPolicy.MIXED)
    assert result["podAffinity"] == {"x": []}
    assert given == {"podAffinity": {"x": []}, "nodeAffinity": None}


def keys(found: list[dict[str, Any]]) -> list[str]:
    return [one["key"] for one in found if "key" in one]


def test_spot_taints_are_tolerated_where_spot_is_used() -> None:
    spot = tolerations((), a_spec(placement={"capacity": "Spot"}), unhealthy_seconds=300)
    only = tolerations((), a_spec(placement={"capacity": "OnDemand"}), unhealthy_seconds=300)
    assert sorted(keys(spot)) == sorted([*keys(only), *SPOT_TAINTS])
    assert keys(only) == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]


@pytest.mark.parametrize("effect", ["NoExecute", None])
def test_what_the_user_tolerates_is_the_users(effect: str | None) -> None:
    own: dict[str, Any] = {"key": "node.kubernetes.io/not-ready", "operator": "Exists"}
    own |= {"effect": effect, "tolerationSeconds": 5} if effect else {}
    found = tolerations((own,), a_spec(), unhealthy_seconds=300)
    assert [one for one in found if one["key"] == own["key"]] == [own]


def test_gpu_workers_tolerate_the_taint_of_gpu_nodes() -> None:
    spec = a_spec().manifest()
    container = spec["workers"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    read = type(a_spec()).model_validate(spec, strict=False, by_alias=True)
    assert keys(tolerations((), read, unhealthy_seconds=1))[0] == "nvidia.com/gpu"


POOLS = Market(
    (
        PoolFacts("a", match_labels={"type": ("g5", "g6"), ZONE: ("x",), "spot": ("yes",)}),
        PoolFacts(
            "b",
            match_labels={"type": ("p5",)},
            tolerations=(Toleration(key="own", operator=EXISTS),),
        ),
        PoolFacts("wide", match_labels={ZONE: ("x", "y")}),
    )
)


def placed(place: Placed, given: dict[str, Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = affinity(given, CapacityPolicy.MIXED, (), place, POOLS)["nodeAffinity"]
    return found


def test_any_of_the_pools_will_do_and_each_has_its_weight() -> None:
    found = placed(Placed(("a", "b"), (("a", 100), ("b", 40)), capacity=Capacity.SPOT))
    a = {
        "matchExpressions": [
            {"key": "type", "operator": "In", "values": ["g5", "g6"]},
            {"key": ZONE, "operator": "In", "values": ["x"]},
            {"key": "spot", "operator": "In", "values": ["yes"]},
        ]
    }
    b = term("type", "p5")
    assert found[REQUIRED] == {"nodeSelectorTerms": [a, b]}
    assert found[PREFERRED] == [{"weight": 100, "preference": a}, {"weight": 40, "preference": b}]


def test_what_the_user_requires_must_hold_in_the_pool_as_well() -> None:
    found = placed(Placed(("b",), capacity=Capacity.SPOT), on_nodes(term("mine")))
    (only,) = found[REQUIRED]["nodeSelectorTerms"]
    assert [one["key"] for one in only["matchExpressions"]] == ["mine", "type"]


def test_a_pool_of_several_zones_is_asked_in_one_of_them() -> None:
    found = placed(Placed(("wide",), zone="y"))
    assert found[REQUIRED] == {"nodeSelectorTerms": [term(ZONE, "y")]}


@pytest.mark.parametrize("names", [(), ("gone",)])
@pytest.mark.parametrize(
    ("capacity", "terms"), [(Capacity.SPOT, PLATFORMS), (Capacity.ON_DEMAND, 1)]
)
def test_where_no_pool_is_known_the_capacity_is_asked_for(
    names: tuple[str, ...], capacity: Capacity, terms: int
) -> None:
    found = placed(Placed(names, capacity=capacity))
    assert len(found[REQUIRED]["nodeSelectorTerms"]) == terms
    assert PREFERRED not in found


def test_pools_may_be_preferred_without_being_required() -> None:
    found = placed(Placed((), (("b", 100),)))
    assert REQUIRED not in found
    assert len(found[PREFERRED]) == PLATFORMS + 1


def test_taints_of_declared_pools_are_tolerated() -> None:
    found = tolerations((), a_spec(), unhealthy_seconds=1, place=Placed(("b",)), market=POOLS)
    assert {"key": "own", "operator": "Exists"} in found
    elsewhere = tolerations((), a_spec(), unhealthy_seconds=1, place=Placed(("a",)), market=POOLS)
    assert "own" not in keys(elsewhere)
