"""What the loss of a worker would cost now, and on whose pods that is said."""

from decimal import Decimal
from typing import Any

import pytest

from spotrun.api.names import Phase
from spotrun.money.units import Usd
from spotrun.policies.report.interruption_price import AT_ONCE
from spotrun.state.actions import Decision, PriceWorker
from spotrun.wire import Progress
from tests.support.jobs.builders import JobBuilder, a_job
from tests.support.jobs.stored_state import cost_of
from tests.support.money.priced_nodes import a_node, at_work

# Each worker costs $0.9 an hour, so ten seconds of four of them cost a cent. A step takes 10 s.
STEP_SECONDS = 10.0


def at_step(step: int, size: int = 4, *, least: int = 2, **told: Any) -> JobBuilder:
    reported = Progress(1, step, total=10_000, step_seconds=STEP_SECONDS)
    members, ids = f"0-{size - 1}" if size > 1 else "0", range(size)
    job = a_job(size, min=least).training(*ids)
    job = job.with_world(members, formed=2000.0, store="x:1")
    given: dict[str, Any] = {"ready": True, "arrived": 1, "progress": reported, **told}
    trains = at_work(job, *ids, node=a_node(usd_per_hour="3.6"), **given)
    return trains.with_checkpoint(100).with_facts(written_seconds=91.0)


def price(decision: Decision) -> str | None:
    return cost_of(decision.status).interruption_usd


def said(decision: Decision) -> dict[int, str]:
    priced = (one for one in decision.actions if isinstance(one, PriceWorker))
    return {one.worker_id: str(one.usd) for one in priced}


@pytest.mark.parametrize(
    ("step", "in_process", "expected"),
    [
        (100, False, "0.03"),  # 30 s until all train again
        (160, False, "0.63"),  # and 60 steps of 10 s that are done again
        (100, True, "0.0105"),  # the step that breaks off, and half a second
        (160, True, "0.0105"),  # nothing is done again where others have the state
    ],
)
def test_a_loss_costs_what_is_done_again_and_the_time_without_training(
    step: int, in_process: bool, expected: str
) -> None:
    assert price(at_step(step, in_process=in_process).decide()) == expected


def test_too_few_to_go_on_wait_for_another_node() -> None:
    # Until it was measured that is taken for ten minutes: 60 cents of the whole job.
    assert price(at_step(100, least=4, in_process=False).decide()) == "0.6"
    assert price(at_step(100, least=4, in_process=True).decide()) == "0.61"


def test_a_worker_alone_has_its_state_for_itself() -> None:
    # 60 steps and ten minutes, at $0.9 an hour.
    assert price(at_step(160, 1, least=1, in_process=True).decide()) == "0.3"


@pytest.mark.parametrize(
    ("before", "is_news"),
    [
        (None, True),
        ("0.31", True),
        ("0.32", False),
        ("0.63", False),
        ("1.25", False),
        ("1.26", True),
    ],
)
def test_pods_say_it_once_it_has_doubled_or_halved(before: str | None, is_news: bool) -> None:
    on_pods = None if before is None else Usd(Decimal(before))
    decision = at_step(160, in_process=False, interruption_usd=on_pods).decide()
    assert said(decision) == (dict.fromkeys(range(4), "$0.63") if is_news else {})


def test_what_was_saved_makes_it_cheap_again() -> None:
    decision = at_step(101, in_process=False, interruption_usd=Usd(Decimal(2))).decide()
    assert said(decision) == dict.fromkeys(range(4), "$0.04")


def test_what_is_cheap_is_said_by_no_annotation() -> None:
    assert said(at_step(102, in_process=False).decide()) == {}


def test_a_few_pods_are_written_at_a_time_and_the_others_soon() -> None:
    decision = at_step(160, 40, in_process=False).decide()
    assert len(said(decision)) == AT_ONCE
    assert decision.wake_after_seconds <= 1.0


def test_nothing_is_said_of_a_job_that_does_not_train_or_has_no_price() -> None:
    unplaced = a_job(2).decide().status
    assert unplaced.cost.interruption_usd is None
    over = at_step(160, in_process=False).with_status(phase=Phase.SUCCEEDED).decide()
    assert over.status.cost.interruption_usd is None
    assert said(over) == {}
