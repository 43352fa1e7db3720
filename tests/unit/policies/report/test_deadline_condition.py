"""What is said about the deadline."""

from decimal import Decimal
from typing import Any

import pytest

from spotrun.api.names import ConditionType
from spotrun.state.conditions import find
from spotrun.state.stored.training import Pace, Progress
from spotrun.wire import Progress as Reported
from tests.support.jobs.builders import ON_CLAIM, JobBuilder, a_job, ago
from tests.support.money.pool_builders import a_node_of, a_spot_pool, an_on_demand_pool, on_market

HOUR = 3600.0


def said(job: JobBuilder) -> tuple[str, str, str]:
    found = find(job.decide().status, ConditionType.ON_SCHEDULE)
    assert found is not None
    return found.status.value, found.reason, found.message


def on_its_way(hours_left: float, work_left: float, **spec: Any) -> JobBuilder:
    """A job of 48 h of work and a deadline after 60 h; nobody trains."""
    done = int((48 - work_left) * HOUR)
    spec = {"deadline": {"finishWithin": "60h"}, "checkpoint": ON_CLAIM, **spec}
    job = on_market(a_job(2, min=1, **spec), a_spot_pool(), an_on_demand_pool())
    job = job.with_facts(created_at=ago((60 - hours_left) * HOUR)).with_checkpoint(done)
    progress = Progress(step=done, total_steps=int(48 * HOUR))
    pace = Pace(step_seconds=Decimal(1), workers=2, changeovers=(600,), measured=9)
    return job.with_status(progress=progress, pace=pace)


def training(job: JobBuilder) -> JobBuilder:
    progress = job.status.progress
    assert progress is not None
    for worker_id in (0, 1):
        job = job.with_worker(
            worker_id,
            ready=True,
            arrived=1,
            node=a_node_of(a_spot_pool(), worker_id, ago(HOUR)),
            created_at=ago(HOUR),
            progress=Reported(1, progress.step or 0, progress.total_steps),
        )
    return job.with_world("0-1")


def test_nothing_is_said_without_a_deadline() -> None:
    assert find(a_job(1).decide().status, ConditionType.ON_SCHEDULE) is None


def test_until_the_work_is_known_nobody_knows() -> None:
    job = a_job(1, deadline={"finishWithin": "60h"})
    assert said(job) == (
        "Unknown",
        "TotalUnknown",
        "no worker has reported yet how many steps there are and how long they take",
    )


def test_with_spot_alone_nobody_knows_either() -> None:
    job = on_its_way(30, 10, placement={"capacity": "Spot"})
    assert said(job)[:2] == ("Unknown", "OnlySpot")


def test_a_job_that_trains_says_when_it_is_finished() -> None:
    # From 2026-03-02T12:00Z, in steps of 36 minutes.
    assert said(training(on_its_way(30, 10))) == (
        "True",
        "OnPace",
        "at full size it is finished about 2026-03-02T21:36Z",
    )


def test_a_job_that_waits_says_until_when_it_can() -> None:
    assert said(on_its_way(30, 10)) == (
        "True",
        "OnPace",
        "it waits for spot capacity until 2026-03-03T07:12Z at most",
    )


def test_what_is_said_stays_the_same_while_it_waits() -> None:
    messages = {said(on_its_way(30 - minutes / 60, 10))[2] for minutes in range(30)}
    assert len(messages) <= 2


def test_a_deadline_that_cannot_be_met_is_said_at_once_with_both_prices() -> None:
    words = (
        "12 h of work at 2 workers are left: at full size it would be 2.2 h late; "
        "about $24 on on-demand or about $9.6 on spot"
    )
    assert said(on_its_way(10, 12)) == ("False", "DeadlineAtRisk", words)


@pytest.mark.parametrize(
    ("on_missed", "work_left", "capacity"),
    [
        ("Auto", 12, "OnDemand"),  # 2.2 h of 60 h
        ("Auto", 20, "Spot"),  # 10.2 h
        ("Cheapest", 12, "Spot"),
        ("OnDemand", 30, "OnDemand"),
        ("Fail", 12, "OnDemand"),
    ],
)
def test_what_is_done_about_a_deadline_that_cannot_be_met(
    on_missed: str, work_left: float, capacity: str
) -> None:
    deadline = {"finishWithin": "60h", "onMissed": on_missed}
    decision = on_its_way(10, work_left, deadline=deadline).decide()
    places = [action.place for action in decision.actions if hasattr(action, "place")]
    assert {place.capacity and place.capacity.value for place in places} == {capacity}


def test_only_time_inside_the_schedule_counts() -> None:
    # 10:00 to 14:00, so of the next 30 h only 6 are usable: 2 today, and 4 tomorrow.
    window = {"windows": [{"from": "10:00", "to": "14:00"}]}
    assert said(on_its_way(30, 10, schedule=window))[:2] == ("False", "DeadlineAtRisk")
    assert said(on_its_way(30, 5, schedule=window))[:2] == ("True", "OnPace")
