from typing import Any

import pytest

from spotrun.policies.placement.free_capacity import TRIED_SECONDS
from tests.support.jobs.builders import JobBuilder, a_job, ago, later
from tests.support.jobs.placed_workers import NO_NODE, OD, lacking, places, waiting, withdrawn
from tests.support.money.pool_builders import a_spot_pool, on_market


def test_a_pool_with_room_on_nodes_that_are_there_gets_as_many_workers() -> None:
    job = on_market(a_job(3), a_spot_pool("cheap", free_slots=2), a_spot_pool("dear", 0.5), OD)
    first, second, third = places(job)
    assert (first.required, first.pinned) == (("cheap",), True)
    assert second == first
    assert (third.required, third.pinned) == (("cheap", "dear"), False)


def test_nobody_prefers_the_room_that_another_one_was_just_given() -> None:
    roomy = a_spot_pool("roomy", 0.5, free_slots=1)
    job = on_market(
        a_job(2), a_spot_pool("cheap", free_slots=1), roomy, a_spot_pool("new", 0.6), OD
    )
    first, second = places(job)
    assert (first.required, first.pinned) == (("cheap",), True)
    assert second.required == ("roomy", "new")


def test_room_that_others_have_taken_is_waited_for_a_minute_and_no_longer_believed_in() -> None:
    full, other = a_spot_pool("full", 0.3, free_slots=1, declared=True), a_spot_pool("other", 0.4)
    job = on_market(waiting(a_job(1), 0, pools=(full,), seconds=59), full, other, OD)
    assert withdrawn(lacking(job, 59)) == []
    job = on_market(waiting(a_job(1), 0, pools=(full,), seconds=60), full, other, OD)
    assert withdrawn(lacking(job, 60)) == [(0, "BetterPool")]
    (place,) = places(lacking(on_market(a_job(1), full, other, OD), 60))
    assert (place.required, place.pinned) == (("full", "other"), False)


@pytest.mark.parametrize("said", [{}, {"free_slots": 1}], ids=["is full", "is said to have room"])
def test_who_finds_no_node_in_a_pool_beside_one_with_room_is_asked_there_soon(
    said: dict[str, Any],
) -> None:
    full = a_spot_pool("full", 0.3, declared=True, provision_seconds=300.0, **said)
    free = a_spot_pool("free", 0.4, free_slots=1)

    def after(seconds: float, **facts: Any) -> JobBuilder:
        waits = waiting(a_job(1), 0, pools=(full,), seconds=seconds, **facts)
        return lacking(on_market(waits, full, free), seconds)

    assert withdrawn(after(TRIED_SECONDS - 1, **NO_NODE)) == []
    assert after(TRIED_SECONDS - 1, **NO_NODE).decide().wake_after_seconds == 1.0
    assert withdrawn(after(TRIED_SECONDS, **NO_NODE)) == [(0, "BetterPool")]
    assert withdrawn(after(TRIED_SECONDS)) == [], "the scheduler has not come to it yet"


def test_room_in_which_a_worker_found_no_node_is_not_offered_to_the_next() -> None:
    full, free = a_spot_pool("full", 0.3, free_slots=1), a_spot_pool("free", 0.4, free_slots=1)
    waits = waiting(a_job(2), 0, pools=(full,), seconds=1, **NO_NODE)
    (place,) = places(on_market(waits, full, free))
    assert place.required == ("free",)


def test_nobody_prefers_the_room_that_another_job_was_just_given() -> None:
    theirs, free = a_spot_pool("theirs", 0.3, is_promised=True), a_spot_pool("free", free_slots=1)
    (place,) = places(on_market(a_job(1), theirs, free))
    assert place.required == ("free",)


def test_room_of_which_nothing_came_is_not_believed_in_again() -> None:
    full, free = a_spot_pool("full", 0.3, free_slots=1), a_spot_pool("free", 0.4, free_slots=1)
    taken_back = lacking(on_market(a_job(1), full, free), TRIED_SECONDS)
    (place,) = places(taken_back)
    assert (place.required, place.pinned) == (("full", "free"), False)


def test_room_is_given_to_one_worker_only_also_where_the_best_pool_has_none() -> None:
    job = on_market(
        a_job(3), *(a_spot_pool(n, usd, free_slots=1) for n, usd in (("a", 0.3), ("b", 0.4)))
    )
    found = [(place.required, place.pinned) for place in places(job)]
    assert found == [(("a",), True), (("b",), True), (("a", "b"), False)]


def test_within_limits_a_pool_with_room_comes_before_a_cheaper_one_without() -> None:
    full, free = a_spot_pool("full", 0.3), a_spot_pool("free", 0.4, free_slots=1)
    limited = on_market(a_job(1, placement={"maxPercentPerZone": 50}), full, free)
    (place,) = places(limited)
    assert (place.required, place.pinned) == (("free",), True)


def test_within_limits_room_comes_first_also_for_who_was_withdrawn_for_it() -> None:
    full, free = a_spot_pool("full", 0.3), a_spot_pool("free", 0.4, free_slots=1)
    limited = on_market(a_job(1, placement={"maxPercentPerZone": 50}), full, free)
    assert [place.required for place in places(lacking(limited, TRIED_SECONDS))] == [("free",)]


def test_who_finds_no_node_waits_on_where_other_pools_have_no_room_either() -> None:
    full, other = a_spot_pool("full", 0.3), a_spot_pool("other", 0.4)
    waits = waiting(a_job(1), 0, pools=(full,), seconds=59, **NO_NODE)
    assert withdrawn(on_market(waits, full, other)) == []


LOST = {"last_interruption_at": ago(60), "free_slots": 1}


@pytest.mark.parametrize(
    ("why", "other", "asked"),
    [
        pytest.param(LOST, {}, ("rests",), id="it has lost a node"),
        pytest.param(
            {"available": False, "retry_at": later(600), "free_slots": 1},
            {},
            ("rests",),
            id="it had no new node",
        ),
        pytest.param(LOST, {"free_slots": 1}, ("other",), id="the other one has room"),
        pytest.param({**LOST, "free_slots": 0}, {}, ("other",), id="it has no room either"),
    ],
)
def test_a_resting_pool_is_asked_if_only_it_has_room(
    why: dict[str, Any], other: dict[str, Any], asked: tuple[str, ...]
) -> None:
    job = on_market(a_job(1), a_spot_pool("rests", 0.3, **why), a_spot_pool("other", 0.4, **other))
    assert [place.required for place in places(job)] == [asked]


@pytest.mark.parametrize("said", [{}, {"free_slots": 1}], ids=["is full", "is said to have room"])
def test_who_finds_no_node_elsewhere_is_asked_from_a_resting_pool_with_room_soon(
    said: dict[str, Any],
) -> None:
    rests, full = a_spot_pool("rests", 0.3, **LOST), a_spot_pool("full", 0.4, **said)
    waits = waiting(a_job(1), 0, pools=(full,), seconds=TRIED_SECONDS, **NO_NODE)
    job = lacking(on_market(waits, rests, full), TRIED_SECONDS)
    assert withdrawn(job) == [(0, "BetterPool")]

    there = waiting(a_job(1), 0, pools=(rests, full), seconds=TRIED_SECONDS, **NO_NODE)
    assert withdrawn(lacking(on_market(there, rests, full), TRIED_SECONDS)) == [], "no third way"
