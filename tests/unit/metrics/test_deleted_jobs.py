from dataclasses import dataclass, replace
from decimal import Decimal

from prometheus_client import generate_latest

from spotrun.agents.answers import Published
from spotrun.metrics.deleted_jobs import HANDOVER_SECONDS, SHOWN_SECONDS, DeletedJobs
from spotrun.metrics.registry import Meter
from spotrun.money.units import Usd
from spotrun.state.stored.cost import Cost
from tests.support.jobs.published_jobs import job


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def that_cost(usd: str, name: str = "job") -> Published:
    made = replace(job(pods=0), name=name)
    return replace(made, status=replace(made.status, cost=Cost(usd=Usd(Decimal(usd)))))


def costs_told(meter: Meter) -> list[float]:
    name = "spotrun_trainingjob_cost_usd_total"
    samples = (one for family in meter.registry.collect() for one in family.samples)
    return [one.value for one in samples if one.name == name]


def test_a_job_that_is_gone_is_told_of_for_a_while() -> None:
    deleted_jobs = DeletedJobs(clock := Clock())
    gone = that_cost("2.5")
    deleted_jobs.keep(gone)
    clock.now = SHOWN_SECONDS - 1
    assert list(deleted_jobs.instead_of([]).values()) == [gone]
    clock.now = SHOWN_SECONDS
    assert deleted_jobs.instead_of([]) == {}


def test_a_new_job_of_its_name_takes_its_place_once_its_end_was_read() -> None:
    deleted_jobs = DeletedJobs(clock := Clock())
    meter = Meter(lambda: [that_cost("0.5")], lambda: True, deleted_jobs=deleted_jobs)
    deleted_jobs.keep(that_cost("2.5"))
    clock.now = HANDOVER_SECONDS - 1
    assert costs_told(meter) == [2.5]
    clock.now = HANDOVER_SECONDS
    assert costs_told(meter) == [0.5]


def test_who_has_gone_for_longer_gives_way_to_a_new_job_of_its_name_at_once() -> None:
    deleted_jobs = DeletedJobs(clock := Clock())
    deleted_jobs.keep(that_cost("2.5"))
    deleted_jobs.keep(other := that_cost("1", "other"))
    clock.now = HANDOVER_SECONDS
    assert list(deleted_jobs.instead_of([that_cost("0")]).values()) == [other]


def test_a_name_that_goes_twice_is_told_once() -> None:
    deleted_jobs = DeletedJobs(Clock())
    deleted_jobs.keep(that_cost("2.5"))
    deleted_jobs.keep(again := that_cost("3"))
    assert list(deleted_jobs.instead_of([]).values()) == [again]


def test_however_many_are_deleted_at_once_few_are_kept() -> None:
    deleted_jobs = DeletedJobs(Clock())
    for number in range(1_500):
        deleted_jobs.keep(that_cost("1", f"job-{number}"))
    assert len(deleted_jobs.instead_of([])) == 1_000


def test_where_nobody_reads_metrics_none_is_kept_for_longer() -> None:
    deleted_jobs = DeletedJobs(clock := Clock())
    for number in range(900):
        deleted_jobs.keep(that_cost("1", f"job-{number}"))
        clock.now += 1
    assert len(deleted_jobs) == SHOWN_SECONDS


def test_only_the_money_of_a_job_that_is_gone_is_left() -> None:
    deleted_jobs = DeletedJobs(Clock())
    deleted_jobs.keep(that_cost("2.5", "gone"))
    meter = Meter(lambda: [that_cost("1")], lambda: True, deleted_jobs=deleted_jobs)
    lines = generate_latest(meter.registry).decode().splitlines()
    of_it = [line for line in lines if 'name="gone"' in line]
    assert {line.partition("{")[0] for line in of_it} == {
        "spotrun_trainingjob_cost_usd_total",
        "spotrun_trainingjob_cost_corrected_usd",
        "spotrun_trainingjob_unpriced_workers",
    }
    [cost] = [line for line in of_it if "cost_usd_total" in line]
    assert cost.endswith(" 2.5")
