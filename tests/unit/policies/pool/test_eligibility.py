"""Which pools can take a worker: what the template, the user and the admin exclude."""

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from spotrun.api.capacitypool import Capacity
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.money.shares import Resources
from spotrun.policies.pool.eligibility import offers
from spotrun.state.market import PoolFacts
from spotrun.state.snapshot import JobSnapshot
from tests.support.jobs.builders import JobBuilder, a_spec
from tests.support.money.pool_builders import a_pool, a_spot_pool, an_on_demand_pool, on_market

GPU = Resources(cpu=Decimal(4), memory=Decimal(2**30), gpus=1)
ZONE = "topology.kubernetes.io/zone"
TYPE = "node.kubernetes.io/instance-type"


def a_job(pool: PoolFacts, pod: dict[str, Any] | None = None, **spec: Any) -> JobSnapshot:
    content = json.loads(json.dumps(a_spec(**spec).manifest()))
    content["workers"]["template"]["spec"].update(pod or {})
    read = TrainingJobSpec.model_validate_json(json.dumps(content))
    return on_market(JobBuilder(read), pool).with_facts(requests=GPU).snapshot()


def requiring(*expressions: tuple[str, str, list[str]]) -> dict[str, Any]:
    """An affinity of one term."""
    wanted = [{"key": k, "operator": o, "values": v} for k, o, v in expressions]
    terms = {"nodeSelectorTerms": [{"matchExpressions": wanted}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {"affinity": {"nodeAffinity": required}}


def fits(job: JobSnapshot) -> bool:
    found = offers(job)
    assert bool(found.why_none) == (not (found.spot or found.stable))
    return not found.why_none


def test_pools_are_sorted_by_whether_they_last() -> None:
    pools = (a_spot_pool(), an_on_demand_pool(), a_pool("r", Capacity.RESERVED, 1.0))
    found = offers(on_market(JobBuilder(a_spec()), *pools).snapshot())
    assert ([p.name for p in found.spot], [p.name for p in found.stable]) == (
        ["spot"],
        ["od", "r"],
    )


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ({}, True),
        ({"nodeSelector": {TYPE: "g5.xlarge"}}, True),
        ({"nodeSelector": {TYPE: "p5.48xlarge"}}, False),
        ({"nodeSelector": {ZONE: "zone-spot"}}, True),
        ({"nodeSelector": {ZONE: "elsewhere"}}, False),
        ({"nodeSelector": {"team": "nobody knows of this label"}}, True),
        ({"nodeSelector": {"pool": "another"}}, False),
        (requiring((TYPE, "In", ["g5.xlarge", "g6.xlarge"])), True),
        (requiring((TYPE, "In", ["g6.xlarge"])), False),
        (requiring((TYPE, "NotIn", ["g5.xlarge"])), False),
        (requiring((ZONE, "NotIn", ["elsewhere"])), True),
        (requiring((ZONE, "DoesNotExist", [])), False),
        (requiring((ZONE, "Exists", [])), True),
        (requiring(("gpu-memory", "Gt", ["20"])), True),
        (requiring(("gpu-memory", "Gt", ["24"])), False),
        (requiring(("gpu-memory", "Lt", ["many"])), False),
        (requiring((TYPE, "In", ["g5.xlarge"]), (ZONE, "In", ["elsewhere"])), False),
    ],
)
def test_the_template_excludes_pools_by_what_is_known_of_their_labels(
    pod: dict[str, Any], expected: bool
) -> None:
    pool = a_spot_pool(match_labels={"pool": ("spot",), "gpu-memory": ("24",)})
    assert fits(a_job(pool, pod)) is expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"allocatable": GPU}, True),
        ({"allocatable": Resources(cpu=Decimal(2), memory=Decimal(2**40), gpus=8)}, False),
        ({"allocatable": Resources(cpu=Decimal(64), memory=Decimal(2**40))}, False),
        ({"gpus": 0}, True),  # no node was seen yet, so it is not known
        ({"gpus": 1}, True),
    ],
)
def test_a_worker_has_to_fit_on_an_empty_node(facts: dict[str, Any], expected: bool) -> None:
    assert fits(a_job(a_spot_pool(**facts))) is expected


@pytest.mark.parametrize(
    ("pool", "spec", "why"),
    [
        (
            a_spot_pool(namespaces_allowed=False),
            {},
            "1 pools: their namespaceSelector does not allow ns",
        ),
        (
            a_spot_pool(),
            {"placement": {"capacity": "OnDemand"}},
            "1 pools: they are spot, and placement.capacity is OnDemand",
        ),
        (
            an_on_demand_pool(),
            {"placement": {"capacity": "Spot"}},
            "1 pools: they are not spot, and placement.capacity is Spot",
        ),
        (
            a_spot_pool(usd=0.71),
            {"placement": {"maxPricePercent": 70}},
            "1 pools: they cost more than maxPricePercent, 70 % of on-demand",
        ),
        (
            a_spot_pool(usd=None),
            {"budget": {"maxUsdPerHour": "5"}},
            "1 pools: their price is unknown, and budget.unpriced is Refuse",
        ),
        (
            a_spot_pool(allocatable=Resources(cpu=Decimal(1), memory=Decimal(1))),
            {},
            "1 pools: a node has too few CPU and memory and GPUs for a worker",
        ),
    ],
)
def test_it_is_said_why_no_pool_is_left(pool: PoolFacts, spec: dict[str, Any], why: str) -> None:
    assert offers(a_job(pool, **spec)).why_none == why


def test_an_unknown_price_is_not_excluded_by_a_bid() -> None:
    assert fits(a_job(a_spot_pool(usd=None), placement={"maxPricePercent": 70}))
    assert fits(a_job(a_spot_pool(usd=0.7), placement={"maxPricePercent": 70}))


@pytest.mark.parametrize(
    ("zones", "volumes", "expected"),
    [
        (("a",), None, True),
        (("a",), {"a", "b"}, True),
        (("a",), {"b"}, False),
        (("a", "b"), {"b"}, True),
        ((), {"b"}, True),  # where its nodes are is not known
        (("a",), set(), False),
    ],
)
def test_a_pool_far_from_a_workers_volumes_cannot_take_it(
    zones: tuple[str, ...], volumes: set[str] | None, expected: bool
) -> None:
    pool = a_spot_pool(zones=zones)
    known = frozenset(volumes) if volumes is not None else None
    assert fits(replace(a_job(pool), volume_zones=known)) is expected


def test_where_the_volumes_are_is_said() -> None:
    far = replace(a_job(a_spot_pool()), volume_zones=frozenset({"b", "a"}))
    why = "they are not in the zones of the worker's volumes: a, b"
    assert offers(far).why_none == f"1 pools: {why}"
