"""`why` and `cost`: whole answers."""

from datetime import UTC, datetime
from typing import Any

import pytest

from spotrun.cli.jobs.screens.bill import bill, sums_by, sums_table
from spotrun.cli.jobs.screens.reasons import why
from spotrun.cli.text.look import Look
from tests.support.screens.shown_jobs import WAITING, shown_job, shown_pools

LOOK = Look(datetime(2026, 3, 1, 12, tzinfo=UTC), width=100)


def test_size_nodes_and_price_of_a_job_are_explained() -> None:
    assert (
        "\n".join(why(shown_job(), shown_pools(), LOOK))
        == """\
Why is it Running?
  6 workers train; 2 more have no node (Training).

Why this size?
  1h ago, Grow: 6 workers: the GPU computes 96% of a step, and a target is 70%.
  UtilizationHigh means: a utilization is above its target, and more workers help enough.
  No more than 6 are allowed now (NoCapacity).
  Throughput per worker as it was measured: 2 workers 100%, 4 workers 97%, 6 workers 91%.

Why these nodes?
  The capacity is Mixed: spot comes first, on demand if no spot is available.
  40m ago, Placed: 2 workers are asked from spot-a10g at $1.92/h.
  The last worker that was taken away (Reclaimed, 41m ago) was 5 on node ip-10-0-3-7.

Why this price?
  5 spot workers in pool spot-a10g at $1.92 an hour each (a node there costs $1.92 from AWS, 3m
  old).
  1 on-demand worker at $4.80 an hour each.
  Together that is $14.40 an hour."""
    )


def test_a_job_that_waits_says_for_what_and_how_to_mend_it() -> None:
    nothing: dict[str, Any] = {
        "scaling": None,
        "decisions": [],
        "interruptions": {},
        "accumulators": {},
    }
    job = shown_job(status={**WAITING, **nothing})
    text = "\n".join(why(job, (), LOOK))
    assert text.startswith("Why is it Pending?\n  0 of 2 workers have a node: 0/3 nodes")
    assert "WaitingForCapacity means: no pool has room for the smallest world." in text
    assert "To fix it: allow more pools or on-demand (placement.capacity: Mixed)" in text
    assert "PriceUnknown: no price for g5.xlarge in us-east-1a." in text


def test_who_gives_way_to_whom_is_said_on_both_sides() -> None:
    at = "2026-03-01T11:50:00Z"
    decisions = [
        {"time": at, "what": "GivesWay", "why": "job ml/high of priority 9 lacks nodes"},
        {"time": at, "what": "MakesRoom", "why": "ml/low is suspended"},
    ]
    text = "\n".join(why(shown_job(status={"decisions": decisions}), (), LOOK))
    assert "10m ago, GivesWay: job ml/high of priority 9 lacks nodes." in text
    assert "10m ago, MakesRoom: ml/low is suspended." in text


@pytest.mark.parametrize(
    ("by", "reason", "advice"),
    [
        ("SpendLimit", "SpendLimited", "raise limitUsd of the SpendLimit that the message names"),
        ("Preemption", "GivesWay", "wait until there is room again, or raise spec.priority"),
        ("Queue", "Queued", "wait for quota, or ask for fewer workers (workers.min)"),
        ("Queue", "EvictedByQueue", "wait until Kueue admits it again"),
    ],
)
def test_whoever_holds_a_job_there_is_something_to_do_about_it(
    by: str, reason: str, advice: str
) -> None:
    status = {"phase": "Suspended", "reason": reason, "message": "held", "suspendedBy": [by]}
    text = " ".join("\n".join(why(shown_job(status=status), (), LOOK)).split())
    assert f"To fix it: {advice}" in text


def test_a_bill_has_what_was_bought_and_what_was_not() -> None:
    assert (
        "\n".join(bill(shown_job(), LOOK))
        == """\
ml/gpt: $38.12, as of 30s ago

WHAT                                                                      COST($)  SHARE
all workers, while they had their nodes                                     38.12   100%
  on spot capacity                                                          30.02    79%
  on other capacity                                                          8.10    21%
  in pool spot-a10g                                                         30.02    79%
  in nodes of no pool                                                        8.10    21%
  bought nothing: steps done twice                                           0.40     1%
  bought nothing: standstill around losses, restarts and changes of size     1.50     4%

On demand the same steps would have cost $96.40: $58.28 saved (60%).
Goodput 93%: the share that bought steps which were kept.
A step costs $0.00093, all other costs included.
Expected at the end: $57.10."""
    )


def test_sums_are_exact_and_the_dearest_is_first() -> None:
    jobs = [
        shown_job("a"),
        shown_job("b", status={"cost": {"usd": "0.1", "usdPerHour": "1"}}),
        shown_job("c", "web", status={"cost": {"usd": "0.2"}}),
    ]
    assert sums_by(jobs, "namespace") == [
        {"namespace": "ml", "usd": "38.22", "usdPerHour": "15.4", "savedUsd": "58.28"},
        {"namespace": "web", "usd": "0.2", "usdPerHour": "0", "savedUsd": "0"},
    ]
    assert [one["team"] for one in sums_by(jobs, "team")] == ["vision"]
    assert sums_by(jobs, "pool")[0] == {"pool": "spot-a10g", "usd": "30.02"}
    assert sums_table(sums_by(jobs, "pool"), "pool", LOOK) == [
        "POOL       COST($)",
        "spot-a10g    30.02",
        "(none)        8.10",
        "(all)        38.12",
    ]
