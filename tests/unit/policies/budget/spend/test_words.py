from spotrun.policies.budget.spend.allotment import Refused, Stopped
from spotrun.policies.budget.spend.words import refusal, stop
from tests.support.jobs.builders import NOW, later
from tests.support.money.shared_limits import a_job, a_limit, usd


def test_a_job_that_waits_says_what_it_needs_and_what_to_do() -> None:
    said = refusal(a_job(), Refused(a_limit(), usd("1.2"), usd("2.6")), NOW)
    assert said.holds == (
        "SpendLimit team: $1.20 of $100.00 were free this month at 2026-03-02T12:00:00Z, and the "
        "smallest useful piece of this job needs $2.60 (1 workers for 10 minutes, a checkpoint "
        "and their end): raise limitUsd, or wait until 2026-04-01T00:00:00Z, or ask for fewer or "
        "cheaper workers"
    )
    assert said.numbers == {"limitUsd": "100.00", "freeUsd": "1.20", "neededUsd": "2.60"}


def test_in_total_nothing_comes_by_waiting() -> None:
    said = refusal(a_job(), Refused(a_limit(period="Total"), usd("1"), usd("2.6")), NOW)
    assert "wait" not in said.holds
    assert "were free at" in said.holds


def test_an_unknown_price_says_where_to_give_it() -> None:
    said = refusal(a_job(), Refused(a_limit(), usd("100"), None), NOW)
    assert "no price is known for a worker of this job" in said.holds
    assert "set spec.usdPerHour of a CapacityPool" in said.holds


def test_a_stopped_job_says_why_it_was_the_one() -> None:
    said = stop(a_job(price="0.3"), Stopped(a_limit(period="Week"), usd("2")), NOW)
    assert "$2.00 of $100.00 were left this week" in said.holds
    assert "the cheapest to stop (an interruption cost $0.30)" in said.holds


def test_words_stay_while_what_they_rest_on_does() -> None:
    first = refusal(a_job(), Refused(a_limit(), usd("1.2"), usd("2.6")), NOW)
    later_on = refusal(a_job(), Refused(a_limit(), usd("1.1"), usd("2.7")), later(60))
    raised = refusal(a_job(), Refused(a_limit("101"), usd("1.1"), usd("2.7")), later(60))
    assert first.code == later_on.code != raised.code
