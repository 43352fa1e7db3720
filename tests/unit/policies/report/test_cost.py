from dataclasses import replace
from datetime import timedelta

import pytest

from spotrun.api.field_types.text_values import WorkerIds
from spotrun.api.names import ConditionType, Pricing
from spotrun.policies.report.write_rate import refresh_seconds, seconds_to_write
from tests.support.jobs.builders import NOW, a_job
from tests.support.money.metered_jobs import DUE, a_metered_job, cost, sums
from tests.support.money.priced_nodes import a_node, at_work, ended


def test_that_a_price_is_unknown_is_not_worth_a_write_of_its_own() -> None:
    said = a_metered_job(0, node=a_node(usd_per_hour=None)).decide().status
    kind = ConditionType.PRICING_COMPLETE
    others = tuple(one for one in said.conditions if one.type != kind.value)
    assert len(others) < len(said.conditions)
    unsaid = replace(said, conditions=others)
    assert seconds_to_write(unsaid, said, written_seconds=1.0) == 59.0


def test_what_is_known_of_several_is_a_part_and_said_to_be_one() -> None:
    job = at_work(a_metered_job(0, 1), 1, node=a_node("b", usd_per_hour=None))
    shown = cost(job.decide())
    assert (shown.usd, shown.usd_per_hour, shown.pricing) == ("1", "1", Pricing.PARTIAL)


def test_a_job_that_had_workers_of_unknown_price_stays_partial() -> None:
    node = a_node(usd_per_hour=None)
    before = a_metered_job(0, node=node, **ended()).decide()
    assert sums(before).unpriced_seconds == "3600"
    after = a_metered_job().with_status(
        accumulators=before.status.accumulators,
        settled=WorkerIds("0").ranges,
        next_worker_id=1,
        cost=before.status.cost,
    )
    assert cost(after.decide()).pricing is Pricing.PARTIAL


def test_the_cost_of_a_running_job_is_written_once_a_minute() -> None:
    running = a_metered_job(0).decide().status
    job = a_metered_job(0).with_state(running)
    pace = refresh_seconds(job.snapshot())
    early = job.with_facts(written_seconds=pace - 1).decide(NOW + timedelta(seconds=pace - 1))
    assert early.status == running
    assert early.wake_after_seconds == pytest.approx(1.0)
    due = job.with_facts(written_seconds=72.0).decide(NOW + timedelta(seconds=72))
    assert cost(due).usd == "1.02"


@pytest.mark.parametrize("usd_per_hour", ["4", None], ids=["known", "unknown"])
def test_a_job_whose_workers_have_ended_has_nothing_new_to_say(usd_per_hour: str | None) -> None:
    node = a_node(usd_per_hour=usd_per_hour)
    job = at_work(a_job(1, suspend=True), 0, node=node, **ended()).with_facts(**DUE)
    for _ in range(3):
        status = job.decide().status
        job = job.with_state(status)
    assert job.decide(NOW + timedelta(hours=5)).status == status
