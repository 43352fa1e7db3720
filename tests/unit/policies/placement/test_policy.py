"""From which capacity workers are asked, and when one takes over from the other."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from spotrun.api.capacitypool import Capacity
from spotrun.api.field_types.amounts import Amount
from spotrun.api.names import ConditionType, Reason
from spotrun.api.status import Pace, Progress
from spotrun.money.shares import Resources
from spotrun.policies.placement.free_capacity import TRIED_SECONDS
from spotrun.policies.pool.policy import TURNED_DOWN_SECONDS
from spotrun.state.actions import Create, Placed, Remove, Withdraw
from spotrun.state.conditions import find, state
from spotrun.state.market import PoolFacts
from spotrun.wire import Progress as Reported
from tests.support.jobs.builders import NOW, ON_CLAIM, JobBuilder, a_job, ago, later
from tests.support.money.pool_builders import (
    a_node_of,
    a_pool,
    a_spot_pool,
    an_on_demand_pool,
    on_market,
)

HOUR = 3600.0
SPOT, OD = a_spot_pool(), an_on_demand_pool()
DRY = a_spot_pool(available=False, retry_at=later(600))
REFUSED = {0: "cluster-autoscaler: pod didn't trigger scale-up: 1 max node group size reached"}


def places(job: JobBuilder) -> list[Placed]:
    return [action.place for action in job.decide().actions if isinstance(action, Create)]


def asked(job: JobBuilder) -> list[str | None]:
    """Of which capacity the workers are that are made."""
    return [place.capacity.value if place.capacity else None for place in places(job)]


def withdrawn(job: JobBuilder) -> list[tuple[int, str]]:
    actions = job.decide().actions
    return [(one.serial, one.reason.value) for one in actions if isinstance(one, Withdraw)]


def removed(job: JobBuilder) -> list[tuple[int, str]]:
    actions = job.decide().actions
    return [(one.serial, one.reason.value) for one in actions if isinstance(one, Remove)]


def waiting(
    job: JobBuilder, *serials: int, pools: tuple[PoolFacts, ...], seconds: float, **facts: Any
) -> JobBuilder:
    """With workers that were asked from these pools so long ago and have no node."""
    return job.with_workers(
        *serials,
        node=None,
        asked=pools[0].capacity,
        pools=tuple(pool.name for pool in pools),
        created_at=ago(seconds),
        **facts,
    )


def working(job: JobBuilder, pool: PoolFacts, *serials: int, hours: float = 1.0) -> JobBuilder:
    """With workers that train on nodes of a pool, which came so long ago."""
    made, known = job, job.status.progress
    step = (known.step or 100) if known is not None else 100
    for serial in serials:
        node = a_node_of(pool, serial, ago(hours * HOUR))
        made = made.with_worker(
            serial,
            ready=True,
            arrived=1,
            node=node,
            created_at=ago(hours * HOUR + 60),
            progress=Reported(1, step, known.total_steps if known is not None else None),
        )
    members = ",".join(str(serial) for serial in sorted(made.workers))
    return made.with_world(members, formed=hours * HOUR, store="10.0.0.1:1")


def lacking(job: JobBuilder, seconds: float) -> JobBuilder:
    """It is known since so long that there are too few nodes."""
    kind = ConditionType.CAPACITY_AVAILABLE
    view = job.view(ago(seconds))
    return job.with_status(
        conditions=state(
            view, job.status, kind, Reason.WAITING_FOR_CAPACITY, "", holds=False
        ).conditions
    )


def due(
    hours_left: float, work_left: float, *, work: float = 48, workers: int = 1, **spec: Any
) -> JobBuilder:
    """A job with a deadline that needs all its workers: a step takes a second, and is saved."""
    done = work - work_left
    allowed = 60.0
    pace = Pace(step_seconds=Amount("1"), workers=1, changeovers=(600,), measured=9)
    deadline = {"finishWithin": f"{allowed:.0f}h"}
    job = a_job(workers, min=workers, checkpoint=ON_CLAIM, deadline=deadline, **spec)
    job = job.with_facts(created_at=ago((allowed - hours_left) * HOUR))
    progress = Progress(step=int(done * HOUR), total_steps=int(work * HOUR))
    return job.with_checkpoint(int(done * HOUR)).with_status(progress=progress, pace=pace)


# which pools ---------------------------------------------------------------------------------


def test_a_cluster_that_knows_no_pool_is_asked_for_any_node() -> None:
    assert places(a_job(2)) == [Placed(), Placed()]


def test_workers_are_asked_from_a_set_of_pools_weighed_by_what_work_costs_there() -> None:
    job = on_market(a_job(1), a_spot_pool("dear", 0.8), a_spot_pool("cheap", 0.4), OD)
    (place,) = places(job)
    assert place == Placed(
        ("cheap", "dear"), (("cheap", 100), ("dear", 50)), capacity=Capacity.SPOT
    )


def test_a_decision_says_where_and_at_what_price() -> None:
    decisions = on_market(a_job(1), SPOT, OD).decide().status.decisions
    assert decisions is not None
    said = (
        "spot g5.xlarge zone-spot $0.40/h, expected $0.42 with interruptions; "
        "on-demand g5.xlarge zone-od $1.00/h"
    )
    assert (decisions[-1].what, decisions[-1].why) == ("Placed", said)


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


NO_NODE = {"unschedulable": "0/2 nodes are available: 2 Insufficient nvidia.com/gpu"}


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
    assert after(TRIED_SECONDS - 1, **NO_NODE).decide().again_seconds == 1.0
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


def test_spot_that_costs_as_much_as_on_demand_is_left_alone() -> None:
    job = on_market(a_job(1), a_spot_pool("dear", 1.0), OD)
    assert asked(job) == ["OnDemand"]


@pytest.mark.parametrize(
    "rests",
    [
        {"available": False, "retry_at": later(60)},
        {"available": False},
        {"last_interruption_at": ago(600)},
    ],
)
def test_a_pool_that_was_dry_or_took_workers_away_rests_while_there_are_others(
    rests: dict[str, Any],
) -> None:
    resting = a_spot_pool("cheap", 0.3, **rests)
    (place,) = places(on_market(a_job(1), resting, SPOT, OD))
    assert place.required == ("spot",)
    (place,) = places(on_market(a_job(1), resting, OD))
    assert place.required == ("cheap",)


def test_a_pool_that_has_rested_is_asked_again() -> None:
    rested = a_spot_pool(
        "cheap", 0.3, available=False, retry_at=ago(1), last_interruption_at=ago(1000)
    )
    (place,) = places(on_market(a_job(1), rested, SPOT))
    assert place.required == ("cheap", "spot")


def test_a_pool_that_is_full_is_not_asked() -> None:
    full = a_spot_pool("full", 0.1, workers=4, max_workers=4)
    (place,) = places(on_market(a_job(1), full, SPOT))
    assert place.required == ("spot",)


def test_one_world_has_one_gpu_model() -> None:
    other = a_spot_pool("h100", 3.0, accelerator="h100", on_demand_usd_per_hour=None)
    job = on_market(a_job(2), SPOT, other)
    assert {place.required for place in places(job)} == {("h100",)}  # a seventh of the time
    with_a10g = on_market(working(a_job(2), SPOT, 0), SPOT, other)
    assert {place.required for place in places(with_a10g)} == {("spot",)}
    mixed = on_market(a_job(2, placement={"homogeneous": "None"}), SPOT, other)
    assert {place.required for place in places(mixed)} == {("h100", "spot")}


def test_a_pod_that_fits_no_known_pool_is_asked_for_any_node_and_it_is_said_why() -> None:
    job = on_market(a_job(1), a_spot_pool(gpus=0, allocatable=Resources(cpu=Decimal(4))))
    decision = job.decide()
    assert places(job) == [Placed()]
    assert decision.status.decisions is not None
    assert decision.status.decisions[-1].why == (
        "no known pool can take a worker: 1 pools: a node has too few GPUs for a worker"
    )


@pytest.mark.parametrize(
    ("pools", "placement", "why"),
    [
        pytest.param(
            (a_spot_pool(namespaces_allowed=False),),
            {},
            "1 pools: their namespaceSelector does not allow ns",
            id="an admin's",
        ),
        pytest.param(
            (a_spot_pool("a", 0.8, namespaces_allowed=False),),
            {"maxPricePercent": 50},
            "1 pools: their namespaceSelector does not allow ns",
            id="an admin's, beside a limit",
        ),
        pytest.param(
            (a_spot_pool("a", 0.8), a_spot_pool("b", 0.9)),
            {"capacity": "Spot", "maxPricePercent": 50},
            "2 pools: they cost more than maxPricePercent, 50 % of on-demand",
            id="the user's limit",
        ),
        pytest.param(
            (),
            {"poolSelector": {"matchLabels": {"tier": "cheap"}}},
            "no CapacityPool has the labels of placement.poolSelector",
            id="the user's choice",
        ),
        pytest.param(
            (a_spot_pool(),),
            {"capacity": "OnDemand", "poolSelector": {"matchLabels": {"tier": "cheap"}}},
            "1 pools: they are spot, and placement.capacity is OnDemand",
            id="what was chosen does not fit",
        ),
    ],
)
def test_no_node_is_asked_for_that_a_rule_forbids(
    pools: tuple[PoolFacts, ...], placement: dict[str, Any], why: str
) -> None:
    job = on_market(a_job(1, placement=placement), *pools)

    decision = job.decide()

    assert decision.actions == ()
    status = decision.status
    lack = find(status, ConditionType.CAPACITY_AVAILABLE)
    assert lack is not None
    assert (status.reason, lack.reason) == ("WaitingForCapacity", "WaitingForCapacity")
    assert lack.message == f"of 1 workers none more is asked for: {why}"
    assert (status.message or "").endswith(f"none more is asked for: {why}")
    assert decision.again_seconds <= 60


def test_where_spot_is_too_dear_on_demand_is_asked_for_though_no_such_pool_is_known() -> None:
    dear = a_spot_pool(usd=0.8)
    job = on_market(a_job(2, placement={"maxPricePercent": 50}), dear)
    assert places(job) == [Placed(capacity=Capacity.ON_DEMAND)] * 2
    waits = waiting(job, 0, pools=(dear,), seconds=5)
    assert withdrawn(waits) == [(0, "Fallback")]
    admins = on_market(job, dear, an_on_demand_pool(namespaces_allowed=False))
    assert places(admins) == [], "an admin's rule holds for nodes that nobody knows as well"


@pytest.mark.parametrize("why", [{"available": False}, {"max_workers": 4, "workers": 4}])
def test_spot_is_not_too_dear_for_what_is_not_to_be_had(why: dict[str, Any]) -> None:
    reserved = a_pool("reserved", Capacity.RESERVED, 0.1, **why)
    job = on_market(a_job(2), SPOT, OD, reserved)
    assert asked(job) == ["Spot", "Spot"]
    there = working(on_market(a_job(2, checkpoint=ON_CLAIM), SPOT, OD, reserved), reserved, 0, 1)
    later_on = there.decide(later(90_000))
    assert not any(isinstance(one, Create) for one in later_on.actions), "they cost less than spot"


def test_who_waits_for_a_pool_that_has_become_too_dear_is_taken_back() -> None:
    placement = {"capacity": "Spot", "maxPricePercent": 50}
    job = waiting(on_market(a_job(2, placement=placement), SPOT, OD), 0, pools=(SPOT,), seconds=5)
    job = working(job, SPOT, 1).with_status(next_serial=2)
    assert withdrawn(job) == []

    dear = on_market(job, replace(SPOT, usd_per_hour=Decimal("0.6")), OD)

    assert withdrawn(dear) == [(0, "WaitingForCapacity")]
    assert removed(dear) == []
    cheaper = on_market(a_job(1, placement=placement), SPOT, OD)
    assert asked(cheaper) == ["Spot"]


# zones ---------------------------------------------------------------------------------------


def in_two_zones(
    megabytes: float | None, zones: str = "Auto", on_demand: PoolFacts = OD
) -> list[Placed]:
    """Seven train in one zone, and one more is wanted."""
    near, far = a_spot_pool("near", 0.4, zone="a"), a_spot_pool("far", 0.32, zone="b")
    job = working(a_job(8, min=1, placement={"zones": zones}), near, *range(7))
    job = job.with_status(pace=Pace(step_seconds=Amount("1"), workers=8))
    sent = None if megabytes is None else megabytes * 1e6
    return places(on_market(job, near, far, on_demand, sync_bytes_per_step=sent))


def test_with_100_mb_of_gradients_a_world_stays_in_one_zone_and_with_1_mb_it_does_not() -> None:
    assert [place.required for place in in_two_zones(100)] == [("near",)]
    (place,) = in_two_zones(1)
    assert set(place.required) == {"near", "far"}


def test_while_traffic_is_not_measured_other_zones_are_liked_less() -> None:
    (place,) = in_two_zones(None)
    assert dict(place.preferred) == {"far": 50, "near": 80}


def test_single_means_the_zone_where_the_others_are() -> None:
    (place,) = in_two_zones(1, "Single")
    assert (place.required, place.zone) == (("near",), "a")
    (place,) = in_two_zones(100, "Any")
    assert set(place.required) == {"near", "far"}


TAKES = "$25.20/h of traffic between zones would make it dearer than on-demand"
AFTER_10M = "on-demand is asked for when spot was lacking for 10m (placement.fallbackAfter)"
WAITS_ON = "spot in the zone of the others is waited for, since placement.capacity is Spot"
FAR = "spot g5.xlarge b has room at $0.32/h, but"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (
            {},
            f"{FAR} {TAKES}: placement.zones Any takes it all the same; {AFTER_10M}",
        ),
        (
            {"zones": "Single", "fallbackAfter": "2m"},
            f"{FAR} placement.zones is Single; {AFTER_10M.replace('10m', '2m')}",
        ),
        (
            {"zones": "Single", "capacity": "Spot"},
            f"{FAR} placement.zones is Single; {WAITS_ON}",
        ),
        ({"zones": "Any"}, ""),
    ],
    ids=["Auto", "Single", "Spot", "Any"],
)
def test_of_a_free_node_in_another_zone_it_is_said_why_it_is_left_out(
    spec: dict[str, Any], why: str
) -> None:
    near = a_spot_pool("near", 0.4, zone="a")
    far = a_spot_pool("far", 0.32, zone="b", free_slots=1)
    home = an_on_demand_pool(zone="a")
    job = working(a_job(8, min=1, placement=spec), near, *range(7))
    job = waiting(job, 7, pools=(near,), seconds=1, **NO_NODE)
    job = job.with_status(pace=Pace(step_seconds=Amount("1"), workers=8))
    job = on_market(job, near, far, home, sync_bytes_per_step=100e6)
    status = job.decide().status
    words = "; ".join(filter(None, (f"1 find no node: {NO_NODE['unschedulable']}", why)))
    said = find(status, ConditionType.CAPACITY_AVAILABLE)
    assert said is not None
    assert (said.message, status.message) == (f"of 8 workers {words}", f"7 workers train; {words}")


def test_any_means_any_also_where_traffic_makes_it_dearer_than_on_demand_at_home() -> None:
    at_home = an_on_demand_pool(zone="a")
    (place,) = in_two_zones(100, "Any", at_home)
    assert set(place.required) == {"near", "far"}
    (place,) = in_two_zones(100, "Auto", at_home)
    assert place.required == ("near",)


def test_a_world_that_begins_is_not_scattered() -> None:
    pools = [a_spot_pool(name, usd, zone=name) for name, usd in (("a", 0.4), ("b", 0.41))]
    job = a_job(8).with_status(pace=Pace(step_seconds=Amount("1"), workers=8))
    found = places(on_market(job, *pools, OD, sync_bytes_per_step=1e9))
    assert {place.required for place in found} == {("a",)}


# how much on-demand --------------------------------------------------------------------------


def test_without_any_spot_pool_on_demand_is_used_at_once_and_nothing_is_excluded() -> None:
    (place,) = places(on_market(a_job(1), OD))
    assert (place.required, place.capacity) == ((), None)
    assert place.preferred == (("od", 100),)


def test_the_base_is_on_demand_and_stays_so() -> None:
    job = on_market(a_job(3, placement={"onDemandBase": 1}), SPOT, OD)
    assert asked(job) == ["OnDemand", "Spot", "Spot"]
    lost_base = on_market(working(a_job(3, placement={"onDemandBase": 1}), SPOT, 1, 2), SPOT, OD)
    assert asked(lost_base) == ["OnDemand"]


@pytest.mark.parametrize(("capacity", "expected"), [("Spot", "Spot"), ("OnDemand", "OnDemand")])
def test_only_the_capacity_that_the_user_allows(capacity: str, expected: str) -> None:
    job = on_market(a_job(1, placement={"capacity": capacity}), SPOT, OD)
    assert asked(job) == [expected]


def test_spot_that_does_not_come_is_waited_for_and_then_replaced() -> None:
    job = on_market(waiting(a_job(2, min=1), 0, 1, pools=(SPOT,), seconds=700), DRY, OD)
    assert withdrawn(lacking(job, 599)) == []
    assert lacking(job, 599).decide().again_seconds <= 1.0
    late = lacking(job, 600)
    assert withdrawn(late) == [(1, "Fallback"), (0, "Fallback")]
    assert asked(late) == ["OnDemand", "OnDemand"]


def test_only_what_is_missing_falls_back() -> None:
    job = waiting(working(a_job(2, min=1), SPOT, 0), 1, pools=(SPOT,), seconds=700)
    late = lacking(on_market(job, DRY, OD), 600)
    assert (withdrawn(late), asked(late)) == ([(1, "Fallback")], ["OnDemand"])


def test_with_capacity_spot_nothing_falls_back() -> None:
    job = waiting(a_job(1, placement={"capacity": "Spot"}), 0, pools=(SPOT,), seconds=700)
    late = lacking(on_market(job, DRY, OD), 6000)
    assert (withdrawn(late), asked(late)) == ([], [])


# waiting -------------------------------------------------------------------------------------


def test_a_worker_that_waits_too_long_is_asked_from_other_pools() -> None:
    other = a_spot_pool("other", 0.5, provision_seconds=120.0)
    dry = a_spot_pool(available=False, retry_at=later(600), provision_seconds=120.0)
    job = waiting(a_job(1), 0, pools=(dry,), seconds=119)
    assert withdrawn(on_market(job, dry, other)) == []
    assert on_market(job, dry, other).decide().again_seconds <= 1.0
    job = waiting(a_job(1), 0, pools=(dry,), seconds=120)
    assert withdrawn(on_market(job, dry, other)) == [(0, "BetterPool")]


def test_a_worker_that_would_be_asked_from_the_same_pools_waits_on() -> None:
    job = waiting(a_job(1), 0, pools=(SPOT,), seconds=10_000)
    assert withdrawn(on_market(job, SPOT)) == []
    assert withdrawn(on_market(job, SPOT).with_facts(turned_down=REFUSED)) == []


def test_a_worker_that_autoscalers_turn_down_is_soon_asked_from_other_pools() -> None:
    here, there = a_spot_pool("here", provision_seconds=300.0), a_spot_pool("there")

    def after(seconds: float) -> JobBuilder:
        job = waiting(a_job(1), 0, pools=(here,), seconds=seconds)
        return on_market(job, here, there).with_facts(turned_down=REFUSED)

    assert withdrawn(after(TURNED_DOWN_SECONDS - 1)) == []
    assert after(TURNED_DOWN_SECONDS - 1).decide().again_seconds <= 1.0
    assert withdrawn(after(TURNED_DOWN_SECONDS)) == [(0, "BetterPool")]


@pytest.mark.parametrize(("declared", "patience"), [(False, 60.0), (True, 600.0)])
def test_until_it_was_measured_nodes_take_a_minute_or_with_an_autoscaler_ten(
    declared: bool, patience: float
) -> None:
    here, there = a_spot_pool("here", declared=declared), a_spot_pool("there")
    job = waiting(a_job(1), 0, pools=(here,), seconds=patience - 1)
    assert withdrawn(on_market(job, here, there)) == []
    job = waiting(a_job(1), 0, pools=(here,), seconds=patience)
    assert withdrawn(on_market(job, here, there)) == [(0, "BetterPool")]


def test_a_withdrawal_names_the_version_that_it_was_decided_on() -> None:
    job = waiting(a_job(1), 0, pools=(SPOT,), seconds=700)
    job = job.with_worker(
        0, node=None, version="41", asked=Capacity.SPOT, pools=("spot",), created_at=ago(700)
    )
    (action,) = (
        one
        for one in lacking(on_market(job, DRY, OD), 600).decide().actions
        if isinstance(one, Withdraw)
    )
    assert (action.uid, action.version) == ("uid-0", "41")


# deadlines -----------------------------------------------------------------------------------


def test_a_job_behind_its_pace_takes_on_demand_where_spot_is_dry() -> None:
    behind = on_market(due(30, 28), DRY, OD)
    assert asked(behind) == ["OnDemand"]
    ahead = on_market(due(30, 15), DRY, OD)
    assert asked(ahead) == ["Spot"]


def test_a_job_behind_its_pace_takes_spot_where_it_is_to_be_had() -> None:
    assert asked(on_market(due(30, 28), SPOT, OD)) == ["Spot"]


def test_a_job_behind_its_pace_does_not_wait_for_spot_longer_than_it_usually_takes() -> None:
    job = on_market(waiting(due(30, 20), 0, pools=(SPOT,), seconds=59), SPOT, OD)
    behind = on_market(waiting(due(30, 28), 0, pools=(SPOT,), seconds=60), SPOT, OD)
    assert (withdrawn(job), asked(job)) == ([], [])
    assert (withdrawn(behind), asked(behind)) == ([(0, "Fallback")], ["OnDemand"])


def test_a_job_behind_its_pace_does_not_wait_for_spot_that_autoscalers_do_not_make() -> None:
    scaled = replace(SPOT, declared=True)
    behind = on_market(waiting(due(30, 28), 0, pools=(scaled,), seconds=30), scaled, OD)
    assert asked(behind) == []
    assert asked(behind.with_facts(turned_down=REFUSED)) == ["OnDemand"]


def test_without_time_for_two_changeovers_nobody_waits_for_spot() -> None:
    assert asked(on_market(due(10.4, 10), SPOT, OD)) == ["Spot"]
    assert asked(on_market(due(10.3, 10), SPOT, OD)) == ["OnDemand"]


def test_a_spot_worker_that_trains_stays_also_then_as_long_as_its_work_is_saved() -> None:
    job = on_market(working(due(10.17, 10), SPOT, 0), SPOT, OD)
    assert (asked(job), removed(job)) == ([], [])


def test_a_gang_that_breaks_when_no_time_is_left_starts_anew_without_spot() -> None:
    # Who is left of it might be lost next, and each loss costs all of them a changeover.
    job = due(10.3, 10, workers=2).with_status(pace=Pace(step_seconds=Amount("1"), workers=2))
    gang = working(job, SPOT, 0).with_world("", 2, switch=False, trained="0")
    assert asked(on_market(gang, SPOT, OD)) == ["OnDemand", "OnDemand"]


def test_work_that_is_not_saved_is_saved_when_its_loss_would_miss_the_deadline() -> None:
    job = on_market(working(due(10.5, 10.1), SPOT, 0), SPOT, OD)
    unsaved = job.with_checkpoint(int(37.5 * HOUR))
    decision = unsaved.decide()
    assert decision.status.orders is not None
    assert (decision.status.orders.checkpoint, asked(unsaved)) == (1, [])


def half_there(hours_left: float, work_left: float) -> JobBuilder:
    """An elastic job of two, of whom one trains on spot; nothing is saved yet."""
    job = due(hours_left, work_left, workers=2)
    workers = job.spec.workers.model_copy(update={"min": 1})
    job = replace(job, spec=job.spec.model_copy(update={"workers": workers}))
    pace = Pace(step_seconds=Amount("1"), workers=2, changeovers=(600,))
    return working(job, SPOT, 0).with_status(pace=pace, checkpoint=None)


@pytest.mark.parametrize(
    ("hours_left", "work_left"),
    [
        (59, 47.5),  # just begun: the first checkpoint is not due yet
        (48.2, 38),  # without what is done there would be no time for two changeovers
        (30, 19),
    ],
)
def test_work_that_is_not_saved_yet_keeps_its_pace(hours_left: float, work_left: float) -> None:
    assert asked(on_market(half_there(hours_left, work_left), DRY, OD)) == ["Spot"]


def test_too_little_work_is_behind_also_where_it_is_not_saved_yet() -> None:
    assert asked(on_market(half_there(30, 28), DRY, OD)) == ["OnDemand"]


def test_it_is_saved_before_its_loss_would_cost_the_time_to_wait_for_spot() -> None:
    calm = on_market(half_there(48.4, 38), SPOT, OD).decide()
    at_risk = on_market(half_there(48.2, 38), SPOT, OD).decide()
    assert calm.status.orders is None
    assert at_risk.status.orders is not None
    assert at_risk.status.orders.checkpoint == 1


def test_where_nobody_can_save_it_work_that_is_not_saved_is_not_counted_on() -> None:
    job = on_market(half_there(30, 19), DRY, OD)
    unsaved = replace(job, spec=job.spec.model_copy(update={"checkpoint": None}))
    assert asked(unsaved) == ["OnDemand"]


def test_where_saving_is_not_enough_on_demand_takes_over_while_spot_trains_on() -> None:
    job = on_market(working(due(10.1, 10.05), SPOT, 0), SPOT, OD)
    unsaved = job.with_checkpoint(int(37.0 * HOUR))
    assert asked(unsaved) == ["OnDemand"]
    assert removed(unsaved) == []


def test_where_nothing_can_be_saved_a_worker_that_trains_is_not_replaced_in_vain() -> None:
    job = on_market(working(due(10.1, 10.05), SPOT, 0), SPOT, OD).with_checkpoint(int(37.0 * HOUR))
    spec = job.spec.model_copy(update={"checkpoint": None})
    assert asked(replace(job, spec=spec)) == []


def test_it_is_known_when_to_look_again() -> None:
    waits = on_market(waiting(due(30, 15), 0, pools=(DRY,), seconds=5), DRY, OD)
    seconds = waits.decide().again_seconds
    assert 0 < seconds <= 600
    at_risk = waits.decide(later(15 * HOUR))
    assert any(isinstance(action, Withdraw) for action in at_risk.actions)


# back to spot --------------------------------------------------------------------------------


def back(job: JobBuilder, *, hours: float = 1.0, pool: PoolFacts = SPOT) -> JobBuilder:
    """One worker on demand since then."""
    return on_market(working(job, OD, 0, hours=hours), pool, OD)


def test_spot_takes_over_from_on_demand_once_its_launch_has_paid_off() -> None:
    # Half of d left / (left - rem) = 10 min x 30 / 5
    assert asked(back(due(30, 25), hours=0.49)) == []
    assert asked(back(due(30, 25), hours=0.51)) == ["Spot"]
    assert asked(back(due(30, 10), pool=DRY)) == []


def test_an_on_demand_worker_trains_until_the_one_from_spot_is_ready() -> None:
    starting = back(due(30, 10)).with_worker(
        1, node=a_node_of(SPOT, 1, ago(60)), created_at=ago(60), asked=Capacity.SPOT
    )
    assert (removed(starting), asked(starting)) == ([], [])
    ready = starting.with_worker(
        1, ready=True, node=a_node_of(SPOT, 1, ago(60)), created_at=ago(60), ready_for=30.0
    )
    world = ready.decide().status.world
    assert world is not None
    assert (world.members, world.switch, world.restore) == ("1", True, f"step-{38 * 3600}.g1")
    after = ready.with_state(ready.decide().status)
    assert removed(after) == [(0, "BackToSpot")]


def by_a_new_leader(job: JobBuilder) -> JobBuilder:
    """The same job, of whose agents nobody has come over yet."""
    workers = {serial: replace(worker, agent=None) for serial, worker in job.workers.items()}
    return replace(job, workers=workers).with_facts(leading_seconds=5.0)


def test_a_new_leader_goes_on_with_a_return_that_was_begun() -> None:
    begun = back(due(30, 10)).with_status(next_serial=2)
    assert asked(by_a_new_leader(begun)) == ["Spot"]


def test_a_new_leader_replaces_nobody_who_trains_as_status_has_it() -> None:
    job = on_market(working(due(10.17, 10), SPOT, 0), SPOT, OD)
    assert asked(by_a_new_leader(job)) == []


def test_what_is_not_saved_is_saved_before_spot_takes_over() -> None:
    job = (
        back(due(30, 10))
        .with_checkpoint(int(37.9 * HOUR))
        .with_worker(
            1, ready=True, node=a_node_of(SPOT, 1, ago(60)), created_at=ago(60), ready_for=30.0
        )
    )
    decision = job.decide()
    assert decision.status.orders is not None
    assert (decision.status.orders.checkpoint, decision.status.world) == (1, job.status.world)


def test_nobody_is_moved_whose_state_would_be_lost() -> None:
    kept = back(a_job(1, checkpoint=ON_CLAIM))
    assert asked(kept) == ["Spot"]
    assert asked(back(a_job(1))) == []


def test_nobody_is_moved_oftener_than_checkpoints_are_written() -> None:
    every = {**ON_CLAIM, "every": "2h"}
    assert asked(back(a_job(1, checkpoint=every), hours=1.9)) == []
    assert asked(back(a_job(1, checkpoint=every), hours=2.1)) == ["Spot"]


def test_while_a_gang_is_broken_none_of_it_goes_back_to_spot() -> None:
    whole = working(working(a_job(2, min=2, checkpoint=ON_CLAIM), OD, 0), SPOT, 1)
    assert asked(on_market(whole, SPOT, OD)) == ["Spot"]
    broken = on_market(whole.with_world("", 2, switch=False, trained=""), SPOT, OD)
    assert asked(broken) == []


def test_the_base_never_goes_back_to_spot() -> None:
    job = on_market(
        working(a_job(2, checkpoint=ON_CLAIM, placement={"onDemandBase": 1}), OD, 0, 1), SPOT, OD
    )
    assert asked(job) == ["Spot"]


def test_of_several_one_with_the_state_stays_until_the_others_have_it() -> None:
    job = on_market(working(a_job(2, min=2, checkpoint=ON_CLAIM), OD, 0, 1), SPOT, OD)
    assert asked(job) == ["Spot", "Spot"]
    for serial in (2, 3):
        node = a_node_of(SPOT, serial, ago(60))
        job = job.with_worker(serial, ready=True, node=node, ready_for=30.0, created_at=ago(60))
    world = job.decide().status.world
    assert world is not None
    assert (world.members, world.how) == ("0,2", "Boundary")


# limits --------------------------------------------------------------------------------------


def test_no_pool_gets_more_than_its_share_and_what_is_over_is_not_asked() -> None:
    job = a_job(4, placement={"maxPercentPerPool": 50})
    found = places(on_market(job, SPOT, a_spot_pool("other", 0.5), OD))
    assert sorted(place.required for place in found) == [("other",)] * 2 + [("spot",)] * 2
    assert len(places(on_market(job, SPOT, OD))) == 2


def test_no_limit_keeps_a_job_below_its_smallest_size() -> None:
    job = a_job(4, min=3, placement={"maxPercentPerPool": 50})
    assert len(places(on_market(job, SPOT, OD))) == 3


def test_a_pool_of_several_zones_is_asked_in_each() -> None:
    wide = a_spot_pool(zones=("a", "b"))
    job = on_market(a_job(4, placement={"maxPercentPerZone": 50}), wide, OD)
    assert sorted(place.zone for place in places(job)) == ["a", "a", "b", "b"]


def test_a_zone_that_is_not_known_is_not_limited() -> None:
    job = on_market(a_job(4, placement={"maxPercentPerZone": 50}), a_spot_pool(zones=()), OD)
    assert len(places(job)) == 4


# measuring -----------------------------------------------------------------------------------


def test_steps_and_changeovers_are_measured() -> None:
    job = on_market(a_job(1), SPOT, OD).with_worker(
        0,
        ready=True,
        arrived=1,
        node=a_node_of(SPOT, 0, ago(400)),
        created_at=ago(1000),
        ready_for=100.0,
        arrived_for=90.0,
        progress=Reported(1, 10, total=100, step_seconds=2.0),
    )
    pace = job.with_world("0", formed=95.0).decide().status.pace
    assert pace == Pace(step_seconds=Amount("2.000000"), workers=1, changeovers=(305,), measured=0)
    again = job.with_world("0", formed=95.0).with_status(pace=pace).decide(NOW)
    assert again.status.pace == pace
