"""The price of an interruption as a boost in a queue: unsaved work raises it, a save lowers it."""

from decimal import Decimal

import pytest

from spotrun.money.units import Usd, UsdPerHour
from spotrun.policies.report.queue_boost import boost_of, boosts
from spotrun.state.actions import BoostRequest
from spotrun.state.queue import Queue, Workload
from spotrun.state.stored.cost import Cost
from spotrun.state.stored.training import AcknowledgedCheckpoint, Pace, Progress
from tests.support.jobs.builders import JobBuilder, a_job, ago

HOUR = 3600


@pytest.mark.parametrize(
    ("usd", "most", "boost"),
    [
        ("0", 20, 0),
        ("0.01", 20, 0),
        ("0.02", 20, 1),
        ("0.0399", 20, 1),
        ("0.04", 20, 2),
        ("10000", 20, 19),
        ("1000000", 20, 20),
        ("1000000", 5, 5),
        ("5", 0, 0),
    ],
)
def test_each_doubling_of_a_cent_adds_one(usd: str, most: int, boost: int) -> None:
    assert boost_of(Usd(Decimal(usd)), most) == boost


def trains(*requests: Workload, unsaved: int = 0, most: int = 20) -> JobBuilder:
    """A job at $36 an hour, a cent a second, whose steps take a second."""
    return (
        a_job(2, min=1)
        .training(0, 1)
        .with_status(
            cost=Cost(usd_per_hour=UsdPerHour(Decimal(36))),
            pace=Pace(step_seconds=Decimal(1)),
            progress=Progress(step=1000 + unsaved),
            checkpoint=AcknowledgedCheckpoint(name="step-1000.g1", step=1000, time=ago(60)),
        )
        .with_facts(queue=Queue("team", "v1beta2", most_boost=most, requests=requests))
    )


def said(job: JobBuilder) -> list[int]:
    view = job.view()
    return [one.boost for one in boosts(view, view.job.status)]


def request(boost: int | None = None, **facts: object) -> Workload:
    known = {"is_reserved": True, "is_admitted": True, "admitted": 2, **facts}
    return Workload("w", "uid", "1", 0, 2, boost=boost, **known)  # type: ignore[arg-type]


def test_unsaved_work_makes_a_job_harder_to_preempt_and_a_save_easier() -> None:
    assert said(trains(request())) == [4], "a restart of 30 s costs 30 cents"
    assert said(trains(request(boost=4), unsaved=HOUR)) == [11], "an hour costs $36"
    assert said(trains(request(boost=11))) == [4]


def test_it_is_not_written_for_a_small_change() -> None:
    assert said(trains(request(boost=4), unsaved=20)) == []
    assert said(trains(request(boost=5))) == []


def test_who_waits_is_ordered_by_priority_alone() -> None:
    evicted = request(boost=11, evicted="Preempted")
    assert said(trains(evicted, unsaved=HOUR)) == [0]
    assert said(trains(request(is_reserved=False, is_admitted=False), unsaved=HOUR)) == []


def test_nothing_is_said_unless_an_admin_wants_it() -> None:
    assert said(trains(request(), unsaved=HOUR, most=0)) == []
    assert said(a_job(2).training(0, 1)) == []


def test_it_is_a_step_of_the_whole_decision() -> None:
    one = request()
    assert BoostRequest(one, 4) in trains(one).decide().actions
