"""The operator's own decisions on small markets: the loop, its accounting, and its end."""

from datetime import datetime
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.api.capacitypool import Capacity
from spotrun.api.field_types.text_values import Duration
from spotrun.api.spec.checkpoint import Checkpoint, ObjectStoreUri
from spotrun.api.spec.placement import CapacityPolicy, Placement
from spotrun.api.spec.workers import Workers
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.policies.chain import decide
from spotrun.policies.workers.partial_capacity import LONGEST_PAUSE
from spotrun.simulate import replay
from spotrun.simulate.outcome import Course, Outcome
from spotrun.simulate.scenario import Job, Rules
from spotrun.simulate.snapshot import TEMPLATE
from spotrun.state.actions import Decision
from spotrun.state.snapshot import JobSnapshot
from tests.unit.simulate.markets import ASKING, GAP, ON_DEMAND, PUBLISHED, SPOT, a_job, a_market

LONG = "#" * 60


def play(job: Job, *pictures: str, rules: Rules = PUBLISHED) -> tuple[Course, Outcome]:
    market = a_market(*pictures, rules=rules)
    course = replay.play(job, market, rules)
    return course, Outcome.of("spotrun", course, job, market)


def capacities(course: Course) -> list[Capacity]:
    return [lease.pool.capacity for lease in course.leases]


@pytest.mark.parametrize("rules", [PUBLISHED, ASKING], ids=["published", "asking"])
def test_where_spot_lasts_a_job_takes_one_changeover_and_its_work(rules: Rules) -> None:
    course, came = play(a_job(4, 24), LONG, rules=rules)

    assert capacities(course) == [Capacity.SPOT]
    assert course.finished == pytest.approx(5 * GAP, abs=1)
    assert came.cost_usd == pytest.approx(float(SPOT) * 5 * GAP / 3600, abs=0.01)
    assert came.deadline_met


@pytest.mark.parametrize("rules", [PUBLISHED, ASKING], ids=["published", "asking"])
def test_where_there_is_no_spot_a_job_is_in_time_on_demand(rules: Rules) -> None:
    course, came = play(a_job(4, 12), "." * 60, rules=rules)

    assert capacities(course) == [Capacity.ON_DEMAND]
    assert came.deadline_met


def test_a_deadline_makes_no_looks_at_a_job_of_which_nothing_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = list[datetime]()

    def counted(job: JobSnapshot, now: datetime, *, is_read: bool) -> Decision:
        looks.append(now)
        return decide(job, now, is_read=is_read)

    monkeypatch.setattr(replay, "decide", counted)
    _, came = play(a_job(40, 80), LONG * 2, rules=ASKING)

    assert came.deadline_met
    assert came.finish_hours is not None
    assert len(looks) < came.finish_hours * 6 * 2, "two for each tick of ten minutes"


def test_all_that_was_saved_is_kept_when_the_only_node_is_lost() -> None:
    course, came = play(a_job(6, 40), "####......" + LONG)

    assert came.lost_work_hours == 0
    assert came.interruptions == 1
    worked = (came.spot_hours + came.on_demand_hours) * 3600
    assert worked == pytest.approx((6 + len(course.leases)) * GAP, abs=1)


def test_what_was_not_saved_is_done_again() -> None:
    # Trains from the second tick, saves after the third: the fourth is lost with the node.
    _, came = play(a_job(6, 40), "####......" + LONG, rules=ASKING)

    assert came.lost_work_hours == pytest.approx(GAP / 3600, abs=0.01)
    assert came.deadline_met


def test_survivors_of_an_elastic_job_keep_its_state() -> None:
    job = a_job(6, 40, workers=2, min_workers=1, max_workers=2)

    _, came = play(job, "2222" + "1" * 56, rules=ASKING)

    assert came.interruptions >= 1
    assert came.lost_work_hours == 0
    assert came.deadline_met


def test_more_workers_than_the_full_size_are_faster() -> None:
    job = a_job(6, 40, workers=2, min_workers=1, max_workers=4)

    course, _ = play(job, "4" * 60)

    assert course.finished == pytest.approx(4 * GAP, abs=60)


def test_the_same_question_has_the_same_answer() -> None:
    asked = (a_job(3, 20), "##..###.." + LONG)

    assert play(*asked, rules=ASKING)[1] == play(*asked, rules=ASKING)[1]


def test_a_job_that_can_never_run_is_given_up() -> None:
    rules = Rules(on_demand_dry_rate=1.0)

    course, came = play(a_job(1, 6), "." * 6, rules=rules)

    assert course.finished is None
    assert not came.deadline_met


@settings(max_examples=3)
@given(zone=st.text("#.", min_size=20, max_size=20), rules=st.sampled_from([PUBLISHED, ASKING]))
def test_what_is_paid_is_time_by_price_on_any_market(zone: str, rules: Rules) -> None:
    course, came = play(a_job(5, 20), zone, rules=rules)

    by_hand = came.spot_hours * float(SPOT) + came.on_demand_hours * float(ON_DEMAND)
    assert came.cost_usd == pytest.approx(by_hand, abs=1e-4)
    assert course.finished is not None
    assert course.finished >= 6 * GAP - 1
    for lease in course.leases:
        assert 0 <= lease.start <= lease.end <= course.finished
        if lease.was_taken:
            assert lease.pool.offer(lease.end).nodes == 0


@pytest.mark.parametrize(
    ("workers", "market", "seconds_later", "share_paid"),
    [
        pytest.param({"min": 2, "sizes": (2, 6, 8)}, "5" * 150, 0.0, 0.6, id="between sizes"),
        pytest.param(
            {"min": 8},
            "8" * 20 + "5" * 90 + "8" * 40,
            # It is asked just before the others come; all start, and do again what was not saved.
            LONGEST_PAUSE.total_seconds() + GAP + 2 * GAP,
            0.7,
            id="too few for a gang",
        ),
    ],
)
def test_nodes_that_nobody_can_use_are_not_paid_for_long(
    workers: dict[str, Any], market: str, seconds_later: float, share_paid: float
) -> None:
    kept, given_back = (
        play(a_spot_job(5, workers, after), market, rules=ASKING)[1] for after in ("999h", "20m")
    )

    assert given_back.cost_usd <= share_paid * kept.cost_usd
    assert given_back.finish_hours is not None
    assert kept.finish_hours is not None
    assert given_back.finish_hours <= kept.finish_hours + seconds_later / 3600


def a_spot_job(hours: float, workers: dict[str, Any], give_back_after: str) -> Job:
    """Of up to eight workers, without a deadline."""
    placement = Placement(capacity=CapacityPolicy.SPOT, give_back_after=Duration(give_back_after))
    sized = Workers(template=TEMPLATE, max=8, replicas=8, **workers)
    spec = TrainingJobSpec(
        workers=sized,
        placement=placement,
        checkpoint=Checkpoint(uri=ObjectStoreUri("s3://your-bucket/checkpoints")),
    )
    return Job(hours * 3600, inf, 8, reach_seconds=24 * 3600, spec=spec)


def test_without_a_deadline_a_replay_ends_where_the_recording_does() -> None:
    spot = Placement(capacity=CapacityPolicy.SPOT)
    spec = TrainingJobSpec(workers=Workers(template=TEMPLATE), placement=spot)
    job = Job(6 * GAP, inf, reach_seconds=30 * GAP, spec=spec)

    course, came = play(job, "####" + "." * 56, rules=ASKING)

    assert (course.finished, came.deadline_met) == (None, False)
    assert [lease.end for lease in course.leases] == [4 * GAP]
