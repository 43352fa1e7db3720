"""The published policies and the optimum, tick by tick on markets drawn by hand."""

from dataclasses import replace
from itertools import product
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.api.capacitypool import Capacity
from spotrun.simulate.market.virtual_market import VirtualMarket
from spotrun.simulate.outcome import Course, Outcome
from spotrun.simulate.peers import greedy, on_demand, optimum, ticks, uniform_progress
from spotrun.simulate.policies import player
from spotrun.simulate.scenario import Job, Rules
from tests.unit.simulate.markets import ASKING, GAP, ON_DEMAND, PUBLISHED, SPOT, a_job, a_market

WISHES = {"greedy": greedy, "uniform-progress": uniform_progress, "on-demand": on_demand}


def drawn(course: Course, ticks_drawn: int) -> str:
    """What the gang was on at each tick: `s`pot, on `D`emand or nothing."""
    picture = ["."] * ticks_drawn
    for lease in course.leases:
        for tick in range(round(lease.start / GAP), round(lease.end / GAP)):
            picture[tick] = "s" if lease.pool.capacity is Capacity.SPOT else "D"
    return "".join(picture)


@pytest.mark.parametrize(
    ("policy", "market", "work", "expected"),
    [
        # The first tick of each launch is its changeover.
        pytest.param("greedy", "##########", 3, "ssss......", id="spot while there is some"),
        pytest.param("greedy", "....######", 3, "....ssss..", id="waits for spot"),
        pytest.param("greedy", "..........", 3, ".....DDDD.", id="until the net catches it"),
        pytest.param("greedy", "####...###", 5, "ssss..DDD.", id="a loss near the end"),
        pytest.param("on-demand", "##########", 3, "DDDD......", id="never spot"),
        pytest.param("uniform-progress", "##########", 3, "ssss......", id="spot is cheaper"),
        pytest.param("uniform-progress", "..........", 3, ".DDDD.....", id="behind at once"),
        pytest.param("uniform-progress", ".#########", 3, ".ssss.....", id="unless spot is there"),
        pytest.param(
            "uniform-progress", "..########", 3, ".DDDss....", id="goes back to spot once ahead"
        ),
        pytest.param("optimum", "..........", 3, "......DDDD", id="nothing to choose from"),
        pytest.param("optimum", "#.#.######", 3, "....ssss..", id="knows which run lasts"),
    ],
)
def test_policies_by_what_they_run_on(policy: str, market: str, work: int, expected: str) -> None:
    course = player(policy)(a_job(work, 10), a_market(market), PUBLISHED)

    assert drawn(course, 10).replace(".", "") == expected.replace(".", "")
    if policy != "optimum":  # of several equally cheap moments it may take any
        assert drawn(course, 10) == expected


def test_uniform_progress_stays_on_demand_until_well_ahead() -> None:
    course = player("uniform-progress")(a_job(10, 24), a_market(".." + "#" * 22), PUBLISHED)

    # Spot is there from the third tick on, but first it makes the progress of two changeovers.
    assert drawn(course, 24) == ".DDDDssssssss" + "." * 11


def test_a_gang_needs_all_its_nodes_in_one_pool() -> None:
    course = player("greedy")(a_job(2, 8, workers=3), a_market("22222222", "23333222"), PUBLISHED)

    assert [(lease.pool.trace.zone, lease.nodes) for lease in course.leases] == [("us-west-2b", 3)]
    assert drawn(course, 8) == ".sss...."


def test_who_asks_waits_for_the_answer_before_paying_more() -> None:
    market, job = a_market("####" + "." * 20), a_job(20, 24)
    asks = Rules(changeover_seconds=GAP, checkpoint_seconds=0)

    known = player("uniform-progress")(job, market, PUBLISHED)
    asked = player("uniform-progress")(job, market, asks)

    # It is behind its line when spot is lost; the answer takes two minutes, decisions are by tick.
    assert drawn(known, 24)[:8] == "ssssDDDD"
    assert drawn(asked, 24)[:8] == "ssss.DDD"


def test_work_since_the_last_checkpoint_is_lost_with_its_node() -> None:
    market, job = a_market("######..........######"), a_job(6, 22)

    course = player("greedy")(job, market, ASKING)

    # One tick of changeover, then checkpoints after the third and fifth: the sixth is lost.
    assert course.lost_seconds == GAP
    assert course.finished is not None
    assert course.finished <= job.deadline_seconds


def test_when_a_loss_could_not_be_made_good_each_tick_is_saved() -> None:
    rules = replace(ASKING, checkpoint_seconds=3 * GAP)
    job, market = a_job(8, 11), a_market("######.....")

    course = player("greedy")(job, market, rules)

    # Lost after five ticks of work, of which a checkpoint every third would have kept three.
    assert course.lost_seconds == 0
    assert course.finished is not None
    assert course.finished <= job.deadline_seconds


def test_what_is_left_in_order_is_saved() -> None:
    market = a_market("######" + "." * 40)

    course = player("uniform-progress")(a_job(12, 30), market, ASKING)

    assert course.lost_seconds <= 2 * GAP
    assert course.finished is not None


PICTURES = st.text("#.", min_size=14, max_size=14)
POLICIES = st.sampled_from(sorted(WISHES))


def outcome(policy: str, job: Job, market: VirtualMarket, rules: Rules = PUBLISHED) -> Outcome:
    course = player(policy)(job, market, rules)
    return Outcome.of(policy, course, job, market)


@settings(max_examples=15)
@given(policy=POLICIES, zones=st.lists(PICTURES, min_size=1, max_size=3), work=st.integers(1, 9))
def test_no_policy_is_cheaper_than_the_optimum(policy: str, zones: list[str], work: int) -> None:
    job, market = a_job(work, 14), a_market(*zones)

    best, other = outcome("optimum", job, market), outcome(policy, job, market)

    assert best.cost_usd <= other.cost_usd + 1e-9
    assert best.deadline_met
    assert other.deadline_met


@settings(max_examples=12)
@given(zone=st.text("#.", min_size=6, max_size=6), work=st.integers(1, 4))
def test_the_optimum_is_the_cheapest_of_all_courses(zone: str, work: int) -> None:
    job, market = a_job(work, 6), a_market(zone)

    assert outcome("optimum", job, market).cost_usd == pytest.approx(cheapest(zone, work))


def cheapest(zone: str, work: int) -> float:
    """By trying everything: each tick on spot, on demand or idle, and a launch at each change."""
    usd = {"s": float(SPOT) * GAP / 3600, "D": float(ON_DEMAND) * GAP / 3600, ".": 0.0}
    costs = []
    for modes in product("sD.", repeat=len(zone)):
        if any(m == "s" and there == "." for m, there in zip(modes, zone, strict=True)):
            continue
        before = (".", *modes[:-1])
        done = sum(m != "." and m == b for m, b in zip(modes, before, strict=True))
        if done >= work:
            costs.append(sum(usd[m] for m in modes))
    return min(costs)


@settings(max_examples=15)
@given(
    policy=POLICIES,
    zones=st.lists(PICTURES, min_size=1, max_size=2),
    work=st.integers(1, 9),
    rules=st.sampled_from([PUBLISHED, ASKING]),
)
def test_what_is_paid_is_time_by_price_and_work_takes_time(
    policy: str, zones: list[str], work: int, rules: Rules
) -> None:
    job, market = a_job(work, 14), a_market(*zones, rules=rules)

    came = outcome(policy, job, market, rules)

    by_hand = came.spot_hours * float(SPOT) + came.on_demand_hours * float(ON_DEMAND)
    assert came.cost_usd == pytest.approx(by_hand, abs=1e-4)
    assert came.finish_hours is not None
    worked = came.spot_hours + came.on_demand_hours
    assert worked >= job.work_seconds / 3600 + came.launches * GAP / 3600 - GAP / 3600 - 1e-6
    assert came.idle_hours + worked == pytest.approx(came.finish_hours, abs=1e-4)
    assert came.deadline_met is (came.finish_hours <= 14 * GAP / 3600 + 1e-6)
    assert came.launches >= came.interruptions


def test_a_deadline_that_cannot_be_met_is_missed_by_as_little_as_can_be() -> None:
    job, market = a_job(10, 5), a_market("#" * 5)

    for policy in ("optimum", "on-demand", "greedy"):
        came = outcome(policy, job, market)
        assert not came.deadline_met
        assert came.finish_hours == pytest.approx(11 * GAP / 3600, abs=1e-5)


def test_a_changeover_need_not_be_a_number_of_ticks() -> None:
    rules = Rules(changeover_seconds=1.5 * GAP, checkpoint_seconds=0, observe=PUBLISHED.observe)
    job, market = a_job(3, 10), a_market("#" * 10)

    for policy in ("optimum", "greedy"):
        came = outcome(policy, job, market, rules)
        assert came.spot_hours == pytest.approx(ceil(4.5) * GAP / 3600)


@pytest.mark.parametrize("hour", range(8))
def test_the_optimum_launches_nothing_where_on_demand_is_dry(hour: int) -> None:
    rules = replace(PUBLISHED, on_demand_dry_rate=0.5)
    market = a_market("." * 120, rules=rules, start=6 * hour)

    course = optimum.play(a_job(6, 48), market, rules)

    assert course is not None
    assert all(lease.pool.offer(lease.start).nodes for lease in course.leases)


def test_a_peer_that_never_ends_is_given_up() -> None:
    rules = Rules(on_demand_dry_rate=1.0)
    market = a_market("." * 4, rules=rules)

    course = ticks.play(greedy.wish, a_job(1, 4), market, rules)

    assert (course.finished, list(course.leases)) == (None, [])
