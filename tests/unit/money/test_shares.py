from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.money.shares import Resources, normalised, share_of

GIB = 2**30
P4D = Resources(cpu=Decimal(96), memory=Decimal(1152 * GIB), gpus=8)
C5 = Resources(cpu=Decimal(16), memory=Decimal(32 * GIB))


def asks(cpu: str = "0", gib: str = "0", gpus: int = 0) -> Resources:
    return Resources(Decimal(cpu), Decimal(gib) * GIB, gpus)


def claims(cpu: str, *, devices: int) -> Resources:
    return Resources(Decimal(cpu), claimed=devices)


@pytest.mark.parametrize(
    ("pod", "node", "share"),
    [
        # All GPUs and a sixth of the cores are all of the node: nobody else can train there.
        (asks("16", "200", gpus=8), P4D, "1"),
        (asks("16", "200", gpus=2), P4D, "0.25"),
        (asks(gpus=1), asks(gpus=3), "0.333333333333"),
        # GPUs that the node no longer offers are still held.
        (asks(gpus=8), asks(gpus=7), "1"),
        (asks(gpus=1), asks("16", "32"), "1"),
        # Devices that are claimed are GPUs, of which most nodes do not say how many they have.
        (claims("16", devices=2), P4D, "0.25"),
        (claims("1", devices=1), C5, "1"),
        # Without GPUs cores and memory count, as OpenCost weighs them.
        (asks("16", "32"), C5, "1"),
        (asks("8", "16"), C5, "0.5"),
        (asks("8", "0"), C5, "0.394299613322"),
        (asks("20", "64"), C5, "1"),
        # On a node with GPUs the cores are a small part of what it costs.
        (asks("48", "576"), P4D, "0.255086467367"),
        # What asks for nothing may use everything.
        (asks(), C5, "1"),
        (asks("1"), asks(), "1"),
    ],
)
def test_the_part_of_a_node_that_a_pod_pays(pod: Resources, node: Resources, share: str) -> None:
    assert round(share_of(pod, node), 12) == round(Decimal(share), 12)


@given(st.integers(1, 16), st.data())
def test_gpus_given_out_cost_no_more_than_the_node(gpus: int, data: st.DataObject) -> None:
    node, left, given_out = Resources(gpus=gpus), gpus, Fraction(0)
    while left:
        taken = data.draw(st.integers(1, left))
        given_out += Fraction(share_of(Resources(gpus=taken), node))
        left -= taken
    assert 1 - Fraction(gpus, 10**27) < given_out <= 1


quantities = st.integers(min_value=1, max_value=10**9)


@given(st.lists(st.tuples(quantities, quantities), min_size=1, max_size=8))
def test_requests_that_fill_a_node_cost_no_more_than_the_node(pods: list[tuple[int, int]]) -> None:
    node = Resources(Decimal(sum(c for c, _ in pods)) / 1000, Decimal(sum(m for _, m in pods)))
    shares = [share_of(Resources(Decimal(c) / 1000, Decimal(m)), node) for c, m in pods]
    assert 1 - Fraction(len(pods), 10**27) < sum(map(Fraction, shares)) <= 1


@given(st.lists(st.decimals(min_value=0, max_value=1, places=28), max_size=12))
def test_normalised_shares_add_up_to_at_most_the_node(shares: list[Decimal]) -> None:
    scaled = normalised(shares)
    total = sum(map(Fraction, scaled), Fraction(0))
    assert total <= 1
    assert scaled == tuple(shares) or total > 1 - Fraction(len(shares), 10**27)
    assert [a <= b for a, b in zip(scaled, shares, strict=True)] == [True] * len(shares)


def test_two_jobs_that_claim_more_than_there_is_divide_it() -> None:
    assert normalised([Decimal(1), Decimal("0.25"), Decimal("0.25")]) == (
        Decimal("0.6666666666666666666666666666"),
        Decimal("0.1666666666666666666666666666"),
        Decimal("0.1666666666666666666666666666"),
    )
