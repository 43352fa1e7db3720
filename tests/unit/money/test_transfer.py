from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.money.other_costs.transfer import Place, ring_usd, usd_per_gb
from spotrun.money.units import Usd

GB = 10**9
A, B, C = (Place("us-east-1", f"us-east-1{letter}") for letter in "abc")
ELSEWHERE = Place("us-west-2", "us-west-2a")


@pytest.mark.parametrize(
    ("places", "usd"),
    [
        pytest.param([], "0", id="nobody"),
        pytest.param([A], "0", id="alone"),
        pytest.param([A, A, A], "0", id="in one zone"),
        # Each link carries 2 x 3/4 GB, at 2 cents for those that cross.
        pytest.param([A, A, B, B], "0.06", id="two zones: there and back"),
        pytest.param([A, B, A, B], "0.12", id="two zones in turn"),
        pytest.param([A, A, B, C], "0.09", id="three zones"),
    ],
)
def test_every_link_of_the_ring_that_crosses_zones_is_paid(
    places: Sequence[Place], usd: str
) -> None:
    assert ring_usd(places, len(places), GB) == Usd(Decimal(usd))


def test_ranks_on_one_node_reach_each_other_for_nothing_and_lengthen_the_ring() -> None:
    assert ring_usd([A, B], 2, GB) == Usd(2 * Fraction(2, 100))
    assert ring_usd([A, B], 16, GB) == Usd(2 * Fraction(2, 100) * Fraction(30, 16))


@pytest.mark.parametrize(
    ("one", "other", "usd"),
    [
        pytest.param(("eu-west-1", "a"), ("eu-west-1", "b"), "0.04", id="AWS"),
        pytest.param(("us-gov-west-1", "a"), ("us-gov-west-1", "b"), "0.04", id="its GovCloud"),
        pytest.param(("us-central1", "-a"), ("us-central1", "-f"), "0.02", id="GCP"),
        pytest.param(("eastus", "-1"), ("eastus", "-2"), "0", id="Azure takes nothing"),
        pytest.param(("cn-north-1", "a"), ("cn-north-1", "b"), "0", id="billed in yuan"),
        pytest.param(("us-east-1", "a"), ("us-east-1", "-bos-1a"), "0", id="a local zone"),
        pytest.param(("basement", "-left"), ("basement", "-right"), "0", id="a cellar"),
        pytest.param(("", "rack-1"), ("", "rack-2"), "0", id="of no region"),
    ],
)
def test_a_price_that_nobody_knows_is_not_guessed(
    one: tuple[str, str], other: tuple[str, str], usd: str
) -> None:
    places = [Place(region, region + suffix) for region, suffix in (one, other)]
    assert ring_usd(places, 2, GB) == Usd(Decimal(usd))


def test_what_costs_nothing_is_told_from_what_nobody_knows() -> None:
    zones = [Place("eastus", f"eastus-{number}") for number in (1, 2)]
    assert usd_per_gb(*zones) == 0
    assert usd_per_gb(A, ELSEWHERE) is None
    assert usd_per_gb(Place("", "rack-1"), Place("", "rack-2")) is None


def test_a_link_between_regions_is_in_no_sum_and_the_others_are() -> None:
    assert ring_usd([A, B, ELSEWHERE], 3, 3 * GB) == Usd(Fraction(2, 100) * 4)


@given(st.lists(st.sampled_from((A, B, C, ELSEWHERE)), max_size=9), st.integers(0, 10**15))
def test_it_does_not_matter_who_begins_nor_in_how_many_steps_it_is_sent(
    places: list[Place], num_bytes: int
) -> None:
    whole = ring_usd(places, 12, num_bytes)
    assert ring_usd([*places[1:], *places[:1]], 12, num_bytes) == whole
    part = num_bytes // 3
    assert ring_usd(places, 12, part) + ring_usd(places, 12, num_bytes - part) == whole
