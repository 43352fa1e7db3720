"""The plan of saves within a budget: chosen once a save was measured, said, and told to workers."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from spotrun.agents.answers import Answers
from spotrun.api.capacitypool import Capacity
from spotrun.money.data.builtin_tables import built_in_tables
from spotrun.money.other_costs.storage_prices import Bucket
from spotrun.money.price_sources import Catalog
from spotrun.state.actions import Decision
from spotrun.wire import Progress, StoreUse, read_answer, write_answer
from tests.support.jobs.builders import NOW, JobBuilder, a_job
from tests.support.jobs.published_jobs import job as published
from tests.support.jobs.stored_state import stored
from tests.support.money.priced_nodes import a_node, at_work

GIB = 2**30
PRICE = Catalog(built_in_tables()).storage(Bucket("s3://bucket", region="us-east-1"))


def saving(budget: str | None, *, use: StoreUse | None = None, **checkpoint: Any) -> JobBuilder:
    """A spot job at $2/h that has saved three checkpoints of 14 GiB, with this budget."""
    place = {"uri": "s3://bucket/prefix", **checkpoint} | ({"budgetUsd": budget} if budget else {})
    told = Progress(1, 10, store=use or StoreUse(stored_bytes=42 * GIB, checkpoints=3))
    told = replace(told, save_seconds=0.5)
    job = a_job(1, checkpoint=place).training(0)
    job = at_work(job, 0, node=a_node(capacity=Capacity.SPOT), ready=True, arrived=1, progress=told)
    return job.with_facts(
        written_seconds=600.0, storage_price=PRICE, created_at=NOW - timedelta(hours=1)
    )


def decided(job: JobBuilder) -> Decision:
    return job.decide(NOW)


def test_it_is_chosen_said_and_told_to_the_workers() -> None:
    decision = decided(saving("9", keep=3))
    plan = decision.status.saving
    assert plan is not None
    assert (plan.keep, plan.within_budget) == (1, True)
    assert plan.usd_per_month.exact <= 9
    assert plan.why.startswith("a save every ")
    assert "1 of 3 kept: $" in plan.why
    assert decision.status.decisions[-1].what == "Save"
    status = stored(decision.status)
    assert status.saving == plan
    base = published()
    answer = Answers(replace(base, status=replace(base.status, saving=plan)), b"key").answer(0)
    told = read_answer(write_answer(answer))
    assert (told.save_every, told.keep) == (plan.every_seconds, plan.keep)


def test_a_smaller_budget_saves_less_often() -> None:
    plans = [decided(saving(budget)).status.saving for budget in ("100", "9", "5")]
    seconds = [plan.every_seconds for plan in plans if plan is not None]
    assert seconds == sorted(set(seconds))


def test_one_that_cannot_be_kept_is_said_and_saves_go_on() -> None:
    plan = decided(saving("0.10")).status.saving
    assert plan is not None
    assert not plan.within_budget
    assert "which is not enough" in plan.why


def test_a_plan_stands_while_nothing_changes_by_much() -> None:
    job = saving("20")
    first = decided(job).status
    assert first.saving is not None
    job = replace(saving("20"), status=stored(first))
    later = job.decide(NOW + timedelta(minutes=10)).status
    assert later.saving == first.saving
    assert [one.what for one in later.decisions].count("Save") == 1


def test_without_a_budget_or_a_measured_save_the_trainer_chooses() -> None:
    assert decided(saving(None)).status.saving is None
    assert decided(saving("20", use=StoreUse())).status.saving is None
    unpriced = saving("20").with_facts(storage_price=None)
    assert decided(unpriced).status.saving is None


def test_a_budget_that_is_taken_away_takes_its_plan_with_it() -> None:
    first = decided(saving("20")).status
    job = replace(saving(None), status=stored(first))
    assert decided(job).status.saving is None


@pytest.mark.parametrize("every", ["500ms", "1500ms"])
def test_a_part_of_a_second_is_a_plan_that_stands(every: str) -> None:
    job = saving("100", every=every)
    first = decided(job).status
    assert first.saving is not None
    assert first.saving.every_seconds == 1
    again = decided(replace(job, status=first)).status
    assert again.decisions == first.decisions
