"""Nodes that no world can use: kept while others may come, then given back and asked for again."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from spotrun.api.capacitypool import Capacity
from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.policies.deadline.course import course
from spotrun.policies.placement.policy import missing
from spotrun.policies.placement.queueing.gang import is_incomplete
from spotrun.policies.workers.partial_capacity import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    LOOK_SECONDS,
    capacity_limit,
)
from spotrun.state.actions import Create, Remove, Withdraw
from spotrun.state.conditions import find
from spotrun.state.job_state import NOTHING_UNUSED, Unused
from spotrun.state.sizes import SizeLimit
from spotrun.state.snapshot import Refusal
from spotrun.state.stored.training import Pace, Progress
from tests.support.jobs.builders import ON_CLAIM, JobBuilder, a_job, ago, later
from tests.support.money.pool_builders import a_spot_pool, an_on_demand_pool, on_market

KEPT = 20 * 60.0
NO_NODE = "0/5 nodes are available"
AT_ONCE: dict[str, Any] = {"placement": {"giveBackAfter": "0s"}}
SCALED, FIXED = an_on_demand_pool(declared=True), an_on_demand_pool()
SPOT_ONLY: dict[str, Any] = {"placement": {"capacity": "Spot"}}


def a_gang(seconds: float, *, placed: int = 5, size: int = 8, **spec: Any) -> JobBuilder:
    """It needs all of them, and for so long no further one was given a node."""
    job = a_job(size, min=size, **spec).with_workers(*range(placed), scheduled_at=ago(seconds))
    waiting = {"node": None, "unschedulable": NO_NODE, "created_at": ago(seconds)}
    job = job.with_workers(*range(placed, size), **waiting).with_status(observed_generation=1)
    return on_market(job, SCALED)


def of_some_sizes(seconds: float) -> JobBuilder:
    """Two of five with a node train, and the next size is six."""
    job = a_job(8, min=2, sizes=(2, 6, 8)).training(0, 1, scheduled_at=ago(seconds))
    job = job.with_workers(2, 3, 4, ready=True, ready_for=seconds, scheduled_at=ago(seconds))
    waiting = {"node": None, "unschedulable": NO_NODE, "created_at": ago(seconds)}
    job = job.with_world("0,1", formed=seconds, store="10.0.0.1:1")
    job = job.with_workers(5, 6, 7, **waiting).with_status(observed_generation=1)
    return on_market(job, SCALED)


def broken(seconds: float, unsaved: int = 0, **spec: Any) -> JobBuilder:
    """Five of eight are left of a world, and wait with the state for the others."""
    job = a_gang(seconds, **spec)
    job = job.with_workers(*range(5), ready=True, arrived=1, scheduled_at=ago(seconds + 3600))
    job = job.with_world("", 2, is_active=False, state_holders="0-4", formed=seconds)
    return at_step(100 + unsaved, job.with_status(phase=Phase.RECOVERING))


def at_step(step: int, job: JobBuilder) -> JobBuilder:
    """Of a second each; a hundred are saved."""
    pace = Pace(step_seconds=Decimal(1), workers=8)
    progress = Progress(step=step, total_steps=100_000)
    return job.with_checkpoint(100).with_status(pace=pace, progress=progress)


def going(job: JobBuilder) -> list[int]:
    """Whose nodes are given back, once that is stored."""
    decided = job.with_status(unused=job.decide().status.unused).decide()
    found = {action.worker_id for action in decided.actions if isinstance(action, Remove)}
    return sorted(worker_id for worker_id in found if job.workers[worker_id].node is not None)


def made(job: JobBuilder) -> int:
    return sum(isinstance(action, Create) for action in job.decide().actions)


def in_vain(job: JobBuilder, **unused: Any) -> JobBuilder:
    """Its nodes were given back once."""
    known = {"count": 1, "size": 0, "room": 5, "retry_at": later(60), **unused}
    return job.with_status(unused=Unused(**known))


def kept_status(job: JobBuilder) -> Unused:
    return job.decide().status.unused


@pytest.mark.parametrize(
    ("job", "gone"),
    [
        pytest.param(a_gang(KEPT - 1), [], id="others may come yet"),
        pytest.param(a_gang(KEPT), [0, 1, 2, 3, 4], id="a gang that lacks three"),
        pytest.param(a_gang(KEPT, placed=8), [], id="all have a node"),
        pytest.param(on_market(a_gang(KEPT)), [], id="of no pool is anything known"),
        pytest.param(a_gang(KEPT, placed=0), [], id="nobody has one"),
        pytest.param(a_gang(KEPT).with_worker(4, scheduled_at=ago(60)), [], id="one has come"),
        pytest.param(of_some_sizes(KEPT - 1), [], id="the next size may be reached"),
        pytest.param(of_some_sizes(KEPT), [2, 3, 4], id="more than one size, less than the next"),
        pytest.param(a_gang(KEPT, placement={"giveBackAfter": "2h"}), [], id="asked for longer"),
        pytest.param(a_gang(599, **AT_ONCE), [], id="as long as a node may take to come"),
        pytest.param(a_gang(600, **AT_ONCE), [0, 1, 2, 3, 4], id="not longer"),
    ],
)
def test_nodes_that_are_of_no_use_for_long_are_given_back(job: JobBuilder, gone: list[int]) -> None:
    assert going(job) == gone
    assert (kept_status(job) is not NOTHING_UNUSED) == bool(gone)


def test_a_decision_about_them_is_due_when_they_were_kept_long_enough() -> None:
    assert a_gang(KEPT - 7).decide().wake_after_seconds == pytest.approx(7)


def test_a_pool_whose_nodes_usually_take_longer_is_waited_for_longer() -> None:
    slow = a_spot_pool("slow", provision_seconds=3000.0)
    waiting = {"node": None, "unschedulable": NO_NODE, "pools": ("slow",)}
    job = on_market(a_gang(KEPT, **SPOT_ONLY), slow)
    job = job.with_workers(5, 6, 7, **waiting, asked=slow.capacity, created_at=ago(KEPT))
    assert going(job) == []
    assert job.decide(later(3000 - KEPT)).status.unused is not NOTHING_UNUSED


def test_it_is_said_how_many_and_when_they_are_asked_for_again() -> None:
    status = a_gang(KEPT).decide().status
    at = later(FIRST_PAUSE.total_seconds())
    assert status.unused == Unused(count=1, size=0, room=5, retry_at=at)
    assert (status.phase, status.reason) == (Phase.STARTING, "WaitingForCapacity")
    assert status.message == (
        "the nodes that came were too few to train, so unused ones were given back; "
        "the operator asks for more at 2026-03-02T12:10:00Z"
    )
    assert status.decisions[-1].why == (
        "0 of 5 workers with a node can train: the other nodes are given back, "
        "and 8 workers are asked for again at "
        "2026-03-02T12:10:00Z"
    )


def test_those_who_train_go_on_meanwhile() -> None:
    status = of_some_sizes(KEPT).decide().status
    assert status.phase is Phase.RUNNING
    assert status.message is not None
    assert status.message.startswith(
        "2 workers train; the nodes that came were enough for 2 workers but not for the next size"
    )
    after = of_some_sizes(KEPT).with_status(unused=status.unused).decide()
    assert after.status.workers.allowed is not None
    allowed = after.status.workers.allowed
    assert (allowed.size, allowed.reason) == (2, "WaitingForCapacity")
    gone = {one.worker_id for one in after.actions if isinstance(one, Remove | Withdraw)}
    assert gone == {2, 3, 4, 5, 6, 7}


def test_until_then_none_is_asked_for_and_then_all_are() -> None:
    rests = in_vain(a_job(8, min=8).with_status(next_worker_id=8, observed_generation=1))
    assert (made(rests), rests.decide().wake_after_seconds) == (0, LOOK_SECONDS)
    assert rests.decide().status.next_worker_id == 8
    again = in_vain(a_job(8, min=8).with_status(observed_generation=1), retry_at=ago(0))
    known = kept_status(again)
    assert (known.count, known.retry_at, known.retried_at) == (1, None, ago(0))
    assert again.decide().status.next_worker_id == 8


@pytest.mark.parametrize(
    ("times", "pause"),
    [
        (0, FIRST_PAUSE),
        (1, 2 * FIRST_PAUSE),
        (2, 4 * FIRST_PAUSE),
        (3, LONGEST_PAUSE),
        (1000, LONGEST_PAUSE),
    ],
)
def test_the_pause_grows_while_it_is_in_vain(times: int, pause: timedelta) -> None:
    known = kept_status(in_vain(a_gang(KEPT), count=times, retry_at=None))
    assert (known.count, known.retry_at) == (times + 1, later(pause.total_seconds()))


def test_where_nobody_makes_nodes_the_pause_does_not_grow() -> None:
    known = kept_status(on_market(in_vain(a_gang(KEPT), count=5, retry_at=None), FIXED))
    assert known.retry_at == later(FIRST_PAUSE.total_seconds())


@pytest.mark.parametrize(
    ("free", "asks"),
    [
        pytest.param(5, False, id="what it gave back"),
        pytest.param(7, False, id="more, and still too few"),
        pytest.param(8, True, id="enough"),
    ],
)
def test_nodes_that_become_free_are_asked_for_at_once(free: int, asks: bool) -> None:
    job = a_job(8, min=8).with_status(observed_generation=1)
    rests = on_market(in_vain(job), an_on_demand_pool(free_slots=free))
    known = kept_status(rests)
    assert (known.retry_at is None) == asks
    assert (rests.decide().status.next_worker_id or 0) == (8 if asks else 0)


def test_room_that_was_there_all_the_time_is_not_asked_for_at_once() -> None:
    taken = a_spot_pool(free_slots=3)  # by the pods of others, which nobody watches
    known = kept_status(on_market(a_gang(KEPT, **SPOT_ONLY), taken))
    assert known.room == 8
    rests = a_job(8, min=8, **SPOT_ONLY).with_status(observed_generation=1, unused=known)
    assert kept_status(on_market(rests, a_spot_pool(free_slots=8))) == known


@pytest.mark.parametrize(
    ("job", "gone"),
    [
        pytest.param(broken(KEPT, checkpoint=ON_CLAIM), True, id="all is saved"),
        # 100 steps of 8 workers cost as much as 160 s of 5.
        pytest.param(broken(KEPT + 159, 100, checkpoint=ON_CLAIM), False, id="100 are not"),
        pytest.param(broken(KEPT + 160, 100, checkpoint=ON_CLAIM), True, id="they are worth less"),
        pytest.param(broken(KEPT * 1000, 100), False, id="it saves nothing"),
        pytest.param(broken(KEPT - 1, checkpoint=ON_CLAIM), False, id="the loss was just now"),
    ],
)
def test_work_that_is_not_saved_is_given_up_only_for_as_much(job: JobBuilder, gone: bool) -> None:
    assert going(job) == ([0, 1, 2, 3, 4] if gone else [])


def test_a_loss_that_is_not_answered_yet_gives_nothing_back() -> None:
    job = a_job(8, min=8, checkpoint=ON_CLAIM).training(*range(8), scheduled_at=ago(KEPT))
    job = at_step(100, job.with_world("0-7", formed=KEPT, store="10.0.0.1:1"))
    job = job.without(7).with_status(observed_generation=1)
    assert (going(job), kept_status(job)) == ([], NOTHING_UNUSED)


def test_nodes_are_kept_while_on_demand_is_about_to_fill_the_gap() -> None:
    spot, stable = a_spot_pool(), an_on_demand_pool(declared=True)
    conditions = a_gang(0).decide().status.conditions
    soon = a_gang(KEPT, placement={"fallbackAfter": "5m"}).with_status(conditions=conditions)
    late = a_gang(KEPT, placement={"fallbackAfter": "5h"}).with_status(conditions=conditions)
    assert going(on_market(soon, spot, stable)) == []
    assert going(on_market(late, spot, stable)) == [0, 1, 2, 3, 4]


def test_who_was_asked_for_elsewhere_only_now_is_waited_for() -> None:
    spot, stable = a_spot_pool(), an_on_demand_pool(declared=True)
    job = a_gang(KEPT).with_status(conditions=a_gang(0).decide(ago(KEPT)).status.conditions)
    job = on_market(job, spot, stable)
    asked = {"node": None, "unschedulable": NO_NODE, "asked": stable.capacity}
    asked_now = job.with_workers(5, 6, 7, **asked, pools=("od",), created_at=ago(1))
    assert going(asked_now) == []
    quick = replace(stable, provision_seconds=120.0)
    of_quick_ones = on_market(asked_now, spot, quick)
    assert going(of_quick_ones) == []
    asked_long_ago = job.with_workers(5, 6, 7, **asked, pools=("od",), created_at=ago(600))
    assert going(asked_long_ago) == [0, 1, 2, 3, 4]
    assert going(job.without(7)) == [], "another one is about to be asked for"
    refused = job.without(7).with_facts(refusal=Refusal("QuotaExceeded", "exceeded quota"))
    assert going(refused) == [0, 1, 2, 3, 4]


def test_spot_has_its_time_again_once_it_is_asked_again() -> None:
    """Without that all would come from on-demand, and what spot has would never be asked for."""
    pools = a_spot_pool(), an_on_demand_pool(declared=True)
    stated = a_gang(0).decide(ago(7200)).status.conditions
    job = on_market(a_job(8, min=8).with_status(conditions=stated), *pools)
    view, rests = job.view(), in_vain(job, retry_at=ago(1))
    asked_again = in_vain(job, retry_at=None, retried_at=ago(1))
    on_demand, spot, in_a_while = (
        {place.capacity for place in missing(view, one.status, 8)}
        for one in (job, asked_again, rests)
    )
    assert (on_demand, spot, in_a_while) == ({Capacity.ON_DEMAND}, {Capacity.SPOT}, {Capacity.SPOT})


def test_that_there_are_too_few_is_said_all_the_time() -> None:
    kind, stated = ConditionType.CAPACITY_AVAILABLE, of_some_sizes(0).decide().status
    lacks = find(stated, kind)
    assert lacks is not None
    rests = in_vain(of_some_sizes(0), size=2).with_status(conditions=stated.conditions)
    assert find(rests.decide().status, kind) == lacks


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(in_vain(a_gang(0, placed=8), retry_at=None), id="all have a node"),
        pytest.param(
            in_vain(a_job(8, min=8)).with_status(observed_generation=1).with_facts(generation=2),
            id="the spec was changed",
        ),
        pytest.param(
            in_vain(a_job(8, min=8, suspend=True)).with_status(observed_generation=1),
            id="suspended",
        ),
    ],
)
def test_what_was_in_vain_is_forgotten(job: JobBuilder) -> None:
    assert kept_status(job) is NOTHING_UNUSED


def test_who_asks_for_none_is_in_nobodys_way() -> None:
    stands = a_gang(KEPT)
    assert is_incomplete(stands.snapshot())
    assert not is_incomplete(in_vain(stands).snapshot())


def training_job(**spec: Any) -> JobBuilder:
    """All eight have trained for a day; something is not saved."""
    job = a_job(8, checkpoint=ON_CLAIM, **spec).training(*range(8), scheduled_at=ago(90_000))
    job = at_step(160, job.with_world("0-7", formed=90_000, store="10.0.0.1:1"))
    return on_market(job.with_status(observed_generation=1), SCALED)


@pytest.mark.parametrize("sizes", [{"min": 8}, {"min": 2, "sizes": (2, 6, 8)}])
@pytest.mark.parametrize("notice", [99, 23 * 3600])
def test_who_trains_under_notice_is_of_use_to_its_end(sizes: dict[str, Any], notice: float) -> None:
    leaving = {"ready": True, "arrived": 1, "scheduled_at": ago(90_000), "leaves_in": notice}
    waits = {"node": None, "unschedulable": NO_NODE, "created_at": ago(3000)}
    job = training_job(**sizes).with_workers(5, 6, 7, **leaving).with_workers(8, 9, 10, **waits)
    turned_down = job.with_facts(turned_down=dict.fromkeys((8, 9, 10), "no capacity"))
    assert (going(job), kept_status(job)) == ([], NOTHING_UNUSED)
    assert (going(turned_down), kept_status(turned_down)) == ([], NOTHING_UNUSED)


def test_a_deadline_is_judged_at_the_size_that_is_wanted() -> None:
    spec = {"checkpoint": ON_CLAIM, "deadline": {"finishWithin": "12h"}}
    trains = a_job(8, min=2, sizes=(2, 6, 8), **spec).training(0, 1, scheduled_at=ago(90_000))
    job = on_market(at_step(100, trains).with_status(observed_generation=1), SCALED)
    job = job.with_status(progress=Progress(step=100, total_steps=10_000))
    paused = in_vain(job, size=2).view()
    limit = capacity_limit(paused)
    assert limit == SizeLimit(Reason.WAITING_FOR_CAPACITY, 2)
    limited = paused.limited(limit)
    assert (limited.limited_size, limited.job.spec.workers.replicas) == (2, 8)
    whole, kept = course(job.view(), job.status), course(limited, job.status)
    assert whole is not None
    assert (whole.work_seconds, whole.ahead_seconds) == (10_000, 600)
    assert kept == whole


@pytest.mark.parametrize(
    ("spec", "process"),
    [
        pytest.param({"perReplica": 8}, {}, id="a part of the model is lost"),
        pytest.param({}, {"in_process": False}, id="all start again anyway"),
    ],
)
def test_survivors_whose_state_is_of_no_use_are_not_kept_for_it(
    spec: dict[str, Any], process: dict[str, Any]
) -> None:
    job = a_gang(KEPT, placed=7, **spec)
    for worker_id in range(7):
        worker = {"ready": True, "arrived": 1, "slot": worker_id, **process}
        job = job.with_worker(worker_id, scheduled_at=ago(90_000), **worker)
    job = job.with_worker(7, node=None, unschedulable=NO_NODE, created_at=ago(KEPT), slot=7)
    job = job.with_world("", 2, is_active=False, state_holders="0-6", formed=KEPT)
    assert going(at_step(100_000, job)) == list(range(7))


def test_it_is_stored_at_once() -> None:
    before = a_gang(KEPT - 1).decide().status
    job = replace(a_gang(KEPT), status=before).with_facts(written_seconds=1.0)
    assert kept_status(job) is not NOTHING_UNUSED


def test_one_place_after_the_other_is_not_asked_for_ever() -> None:
    spot = a_spot_pool("new", declared=True)
    asked_now = {"node": None, "unschedulable": NO_NODE, "asked": spot.capacity, "pools": ("new",)}
    for seconds, gone in ((1799, []), (1800, [0, 1, 2, 3, 4])):
        job = on_market(a_gang(seconds, **SPOT_ONLY), spot)
        assert going(job.with_workers(5, 6, 7, **asked_now, created_at=ago(1))) == gone


def test_who_loses_one_of_a_size_that_it_keeps_to_gives_the_others_back() -> None:
    job = in_vain(of_some_sizes(KEPT), size=6, count=3)
    assert going(job) == [2, 3, 4]
    known = kept_status(job)
    assert (known.size, known.count) == (2, 4)
    again = in_vain(of_some_sizes(KEPT), size=2, count=3)
    assert kept_status(again) == again.status.unused, "once is enough"


def test_who_asks_again_has_the_whole_time_again() -> None:
    job = in_vain(of_some_sizes(KEPT), size=2, retry_at=ago(0))
    known = kept_status(job)
    assert (known.retry_at, known.count) == (None, 1)
    asked = job.with_status(unused=known).decide(later(60)).status
    assert asked.unused == known


def test_the_pause_begins_anew_where_more_could_train_than_before() -> None:
    job = in_vain(of_some_sizes(KEPT), size=0, count=3, retry_at=None)
    known = kept_status(job)
    assert (known.size, known.count) == (2, 1)
