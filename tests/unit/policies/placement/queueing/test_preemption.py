"""Who makes room for a job of higher priority, and how much."""

from collections.abc import Iterable, Mapping
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.money.shares import Resources, times_in
from spotrun.money.units import Usd
from spotrun.policies.placement.queueing.preemption import (
    NOBODY,
    Claim,
    Held,
    Victim,
    most_room,
    preempt,
)

WHOLE, HALF = Resources(gpus=8), Resources(gpus=4)


def a_victim(
    job: str,
    nodes: str,
    *smaller: int,
    shrink: str = "0.01",
    stop: str = "1",
    each: Resources = WHOLE,
) -> Victim:
    """A job with a worker on each of these nodes; the first leaves first."""
    held = tuple(Held(node, each) for node in nodes)
    return Victim(job, held, smaller, Usd(Decimal(shrink)), Usd(Decimal(stop)))


def a_claim(missing: int, nodes: str, each: Resources = WHOLE, **free: int) -> Claim:
    return Claim(missing, each, {node: Resources(gpus=free.get(node, 0)) for node in nodes})


ELASTIC = a_victim("elastic", "abcd", 1, 2, 3)
CHEAP = a_victim("cheap", "ef", stop="0.5")
DEAR = a_victim("dear", "gh", stop="3")
ALL = (DEAR, CHEAP, ELASTIC)


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        (1, {"elastic": 3}),
        (2, {"elastic": 2}),
        (3, {"elastic": 1}),
        (4, {"elastic": 2, "cheap": 0}),
        (5, {"elastic": 1, "cheap": 0}),
        (6, {"elastic": 0, "cheap": 0}),
        (8, {"elastic": 0, "cheap": 0, "dear": 0}),
        (9, {}),
    ],
)
def test_jobs_shrink_first_and_the_cheapest_are_suspended_after_that(
    missing: int, expected: Mapping[str, int]
) -> None:
    assert preempt(a_claim(missing, "abcdefgh"), ALL).sizes == expected


def test_whose_nodes_are_of_no_use_to_the_claim_gives_nothing() -> None:
    assert preempt(a_claim(2, "gh"), ALL).sizes == {"dear": 0}
    assert preempt(a_claim(3, "gh"), ALL) == NOBODY
    assert most_room(a_claim(3, "gh"), ALL) == 2


def test_workers_leave_in_their_order_until_one_is_on_a_node_that_helps() -> None:
    assert preempt(a_claim(1, "c"), (ELASTIC,)).sizes == {"elastic": 1}


def test_two_small_workers_of_one_node_make_room_for_a_large_one_together() -> None:
    one = a_victim("one", "a", stop="1", each=HALF)
    two = a_victim("two", "a", stop="2", each=HALF)
    assert preempt(a_claim(1, "a"), (one, two)).sizes == {"one": 0, "two": 0}
    assert preempt(a_claim(1, "a", a=4), (one, two)).sizes == {"one": 0}
    assert preempt(a_claim(1, "a"), (one,)) == NOBODY


def test_one_large_job_is_cheaper_than_many_small_ones_where_that_is_so() -> None:
    small = [a_victim(f"small-{node}", node, stop="1") for node in "abc"]
    large = a_victim("large", "def", stop="2")
    assert preempt(a_claim(3, "abcdef"), (*small, large)).sizes == {"large": 0}
    assert preempt(a_claim(1, "abcdef"), (*small, large)).sizes == {"small-a": 0}


NODES = "abcdef"
SOME_VICTIMS = st.lists(
    st.builds(
        lambda nodes, least, shrink, stop, each: (nodes, least, shrink, stop, each),
        st.text(NODES, min_size=1, max_size=4),
        st.integers(1, 4),
        st.integers(1, 5),
        st.integers(6, 50),
        st.sampled_from((WHOLE, HALF)),
    ),
    max_size=5,
)


@given(SOME_VICTIMS, st.integers(1, 6), st.sampled_from((WHOLE, HALF)))
def test_the_claim_is_met_by_nobody_too_many_or_nobody_gives_anything(
    given_victims: list[tuple[str, int, int, int, Resources]], missing: int, each: Resources
) -> None:
    victims = [
        a_victim(str(n), nodes, *range(least, len(nodes)), shrink=f"{low}", stop=f"{high}", each=of)
        for n, (nodes, least, low, high, of) in enumerate(given_victims)
    ]
    claim = a_claim(missing, NODES, each)
    sizes = preempt(claim, victims).sizes
    everything = dict.fromkeys((one.job for one in victims), 0)
    least = {one.job: one.least for one in victims}
    if not sizes:
        assert room(claim, victims, everything) < missing
        return
    assert room(claim, victims, sizes) >= missing
    assert all(size == 0 or size >= least[job] for job, size in sizes.items())
    for job in sizes:
        assert room(claim, victims, {k: v for k, v in sizes.items() if k != job}) < missing
    if 0 in sizes.values():
        assert room(claim, victims, least) < missing, "nobody is suspended where all can shrink"


def room(claim: Claim, victims: Iterable[Victim], sizes: Mapping[str, int]) -> int:
    """Count, by other means, how many workers more find room."""
    found = 0
    for node, free in claim.free.items():
        gone = sum(
            held.requests.gpus
            for one in victims
            for held in one.workers[: len(one.workers) - sizes.get(one.job, len(one.workers))]
            if held.node == node
        )
        found += times_in(claim.requests, Resources(gpus=free.gpus + gone))
        found -= times_in(claim.requests, free)
    return found
