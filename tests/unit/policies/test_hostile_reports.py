"""Whatever a worker reports, its job is decided, and what is said of it can be stored.

An operator that stumbled over a report could not keep the job's budget either.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.api.capacitypool import Capacity
from spotrun.api.cost import Accumulators
from spotrun.api.field_types.amounts import Amount
from spotrun.money.units import Usd, UsdPerHour
from spotrun.policies.cost.bill import to_show
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import PodEnd, PodPhase
from spotrun.wire import (
    MESSAGE_CHARACTERS,
    MOST_STEPS,
    MOST_SUSPECTS,
    Checkpoint,
    Failure,
    Progress,
    Report,
    read_report,
    write_report,
)
from tests.support.jobs.builders import NOW, JobBuilder, a_job
from tests.support.jobs.stored_state import cost_of, stored, sums_of
from tests.support.money.priced_nodes import a_node, at_work

NODE = replace(a_node(), on_demand_usd_per_hour=UsdPerHour(12), capacity=Capacity.SPOT)
LIMITED = a_job(
    2,
    min=1,
    checkpoint={"uri": "s3://bucket/checkpoints"},
    budget={"maxCostUsd": "999999999999"},
    deadline={"finishWithin": "999999h"},
)

EXTREMES = st.sampled_from((0, 1, 2, 2**31 - 1, 2**31, MOST_STEPS - 1, MOST_STEPS))
SECONDS = st.sampled_from((None, 0.0, 5e-324, 1e-7, 1e-6, 1.0, 86_400.0))
SAVED = st.tuples(EXTREMES, st.sampled_from((0, 1, 10**10 - 1))).map(
    lambda at: Checkpoint(f"step-{at[0]}.g{at[1]}", at[0])
)
PROGRESS = st.builds(
    Progress,
    st.just(1) | EXTREMES,
    EXTREMES,
    st.none() | EXTREMES,
    EXTREMES,
    SECONDS,
    EXTREMES,
    checkpoint_seconds=SECONDS | st.just(1e9),
    restored=st.none() | SAVED.map(lambda saved: saved.name),
)
REPORTS = st.builds(
    Report,
    ready=st.booleans(),
    arrived=st.just(1) | EXTREMES,
    failed=st.none()
    | st.builds(
        Failure, st.just(1) | EXTREMES, st.integers(0, 255), st.just("x" * MESSAGE_CHARACTERS)
    ),
    suspects=st.lists(st.integers(0, 2), max_size=MOST_SUSPECTS).map(tuple),
    store_port=st.none() | st.sampled_from((1, 65_535)),
    progress=st.none() | PROGRESS,
    committed=st.none() | SAVED,
    completed=st.booleans(),
    in_process=st.booleans(),
)


def saying(job: JobBuilder, *reports: Report) -> JobBuilder:
    """The job with workers of whom each reports what can be reported."""
    reported = at_work(job.training(0, 1), 0, 1, ready=True, arrived=1, node=NODE)
    workers = dict(reported.workers)
    for worker_id, report in enumerate(reports):
        worker = workers[worker_id]
        assert worker.agent is not None
        agent = replace(worker.agent, report=read_report(write_report(report)))
        workers[worker_id] = replace(worker, agent=replace(agent, progress_seconds=1.0))
    return replace(reported, workers=workers).with_facts(written_seconds=91.0)


def lives(*looks: tuple[Report, Report]) -> Iterator[JobState]:
    """What is said after each look, a minute after the one before; it must be fit to be stored."""
    job, now = LIMITED, NOW
    for reports in looks:
        decided = saying(job, *reports).decide(now).status
        assert stored(decided) == decided
        job, now = replace(LIMITED, status=stored(decided)), now + timedelta(minutes=1)
        yield decided


@settings(max_examples=20)
@given(st.lists(st.tuples(REPORTS, REPORTS), min_size=2, max_size=4))
def test_whatever_is_reported_can_be_decided_and_stored(looks: list[tuple[Report, Report]]) -> None:
    assert len(list(lives(*looks))) == len(looks)


def at(step: int, step_seconds: float = 86_400.0) -> tuple[Report, Report]:
    progress = Progress(1, step, MOST_STEPS, step, step_seconds)
    report = Report(ready=True, arrived=1, progress=progress)
    return report, report


def money(status: JobState) -> Accumulators:
    return sums_of(status)


def usd(amount: Amount | None) -> Decimal:
    return amount.decimal if amount is not None else Decimal(0)


def test_nobody_saves_more_than_on_demand_capacity_would_have_cost() -> None:
    *_, last = lives(at(1), at(2), at(MOST_STEPS))
    # Two workers at $3 an hour each on demand, for the hour and two minutes since the job was made.
    assert Decimal(12) < usd(money(last).on_demand_usd) <= Decimal("12.4")


def test_no_more_work_is_lost_than_was_paid_for() -> None:
    *_, last = lives(at(1), at(MOST_STEPS), at(1))
    shown = cost_of(last)
    assert usd(shown.lost_work_usd) == usd(shown.usd) > 0


def test_steps_done_again_are_counted_up_to_the_largest_number_that_can_be_stored() -> None:
    *_, last = lives(at(1), at(MOST_STEPS), at(1), at(MOST_STEPS), at(1))
    assert last.interruptions.lost_steps == MOST_STEPS


def test_a_megabyte_of_last_words_ends_in_a_message_that_can_be_stored() -> None:
    job = saying(LIMITED, *at(1))
    end = PodEnd(exit_code=1, pod_message="x" * MESSAGE_CHARACTERS)
    ended = job.with_worker(0, node=NODE, phase=PodPhase.FAILED, end=end)
    decided = ended.decide().status
    assert stored(decided) == decided


def test_a_sum_beyond_what_can_be_written_is_the_largest_that_can() -> None:
    assert to_show(Usd(10**30)).amount == "999999999999.999999999999"
    assert to_show(Usd(Decimal("999999999999.99996"))).amount == "999999999999.999999999999"
