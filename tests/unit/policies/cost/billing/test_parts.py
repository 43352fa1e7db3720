"""The cost of a job by the parts of a bill adds up to what its status shows."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from spotrun.money.units import Usd
from spotrun.policies.cost.billing.parts import Part, parts_of
from spotrun.state.stored.cost import Cost, PoolCost, StorageCost

_CAPACITIES = {"reserved": "Reserved", "spot-a": "Spot", "od": "OnDemand"}


def usd(text: str) -> Usd:
    return Usd(Decimal(text))


def test_each_category_has_its_part() -> None:
    cost = Cost(
        usd=usd("3"),
        spot_usd=usd("2"),
        by_pool=(PoolCost("spot-a", usd("2")), PoolCost("od", usd("1"))),
        lost_work_usd=usd("0.3"),
        idle_usd=usd("0.05"),
        estimated_transfer_usd=usd("0.0001"),
        storage=StorageCost(usd=usd("0.02")),
    )
    assert parts_of(cost, _CAPACITIES) == {
        Part("compute", "Spot", "spot-a"): 18_000,
        Part("lostWork", "Spot", "spot-a"): 2_000,
        Part("compute", "OnDemand", "od"): 9_000,
        Part("lostWork", "OnDemand", "od"): 1_000,
        Part("idle"): 500,
        Part("transfer"): 1,
        Part("storage"): 200,
    }


def test_of_pools_that_are_not_known_the_rest_of_spot_is_spot() -> None:
    cost = Cost(
        usd=usd("3"),
        spot_usd=usd("1.5"),
        by_pool=(PoolCost("spot-a", usd("1")), PoolCost("(other)", usd("2"))),
    )
    assert parts_of(cost, _CAPACITIES) == {
        Part("compute", "Spot", "spot-a"): 10_000,
        Part("compute", "Spot", "(other)"): 5_000,
        Part("compute", "OnDemand", "(other)"): 15_000,
    }


def test_a_cost_without_pools_has_no_pool() -> None:
    assert parts_of(Cost(usd=usd("1")), {}) == {Part("compute", "OnDemand", ""): 10_000}


def test_a_cost_that_is_not_known_has_no_parts() -> None:
    assert parts_of(Cost(), {}) == {}


amounts = st.integers(0, 10**9).map(lambda n: Decimal(n).scaleb(-4))


@given(st.dictionaries(st.sampled_from(["spot-a", "od", "", "x", "(other)"]), amounts), amounts)
def test_parts_add_up_to_the_cost(by_pool: dict[str, Decimal], rest: Decimal) -> None:
    whole = sum(by_pool.values(), rest)
    cost = Cost(
        usd=Usd(whole),
        spot_usd=Usd(rest),
        lost_work_usd=Usd(whole / 2),
        by_pool=tuple(PoolCost(pool, Usd(money)) for pool, money in by_pool.items()),
    )
    assert sum(parts_of(cost, _CAPACITIES).values()) == whole * 10_000
