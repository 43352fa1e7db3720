"""The words of SpendLimits to jobs, and whom a change wakes or has looked at."""

import pytest

from spotrun.api.names import FINALIZER_SPEND
from spotrun.observe.jobs.spend_limits import ANYTHING, NOT_ASKED
from spotrun.state.snapshot import SpendVerdict
from tests.support.jobs.builders import a_job
from tests.support.money.spend_namespace import NAMESPACE, Operator, SpendNamespace

HELD = {"finalizers": [str(FINALIZER_SPEND)]}
UNREADABLE = {"workers": {"min": "many"}}


def told(operator: Operator, **facts: object) -> SpendVerdict | None:
    """What a job named a is told at a look."""
    job = a_job(1).with_facts(name="a", uid="uid-a", namespace=NAMESPACE, **facts)
    return operator.spending.added_to(job.snapshot()).spend


def test_a_job_under_no_limit_is_told_nothing() -> None:
    place = SpendNamespace()
    place.job("a")
    assert told(place.operator()) is None
    place.limit(selector={"matchLabels": {"team": "x"}})
    assert told(place.operator()) is None
    assert told(place.operator(), cost_labels={"team": "x"}) is NOT_ASKED


def test_where_limits_only_warn_a_job_need_not_ask() -> None:
    place = SpendNamespace()
    place.job("a")
    place.limit(onExceeded="Warn")
    operator = place.operator()
    assert told(operator) is ANYTHING
    assert not operator.asks("a")


def test_a_job_asks_once_and_starts_when_it_was_told_that_it_may() -> None:
    place = SpendNamespace()
    place.limit()
    place.job("a")
    operator = place.operator()
    operator.looked.clear()
    assert operator.asks("a")
    assert NAMESPACE in operator.looked
    (facts,) = operator.spending.jobs_of(NAMESPACE)
    assert (facts.asks, facts.is_granted) == (True, False)
    assert str(facts.worker_rate) == "$10.00/h"

    operator.woken.clear()
    operator.spending.publish(NAMESPACE, {"uid-a": SpendVerdict(is_granted=True)})
    operator.spending.publish(NAMESPACE, {"uid-a": SpendVerdict(is_granted=True)})
    assert operator.woken == ["a"], "what is not new wakes nobody"
    assert not operator.asks("a")
    (facts,) = operator.spending.jobs_of(NAMESPACE)
    assert facts.is_granted, "its money stays reserved until its workers are in its status"


def test_the_same_price_does_not_have_the_namespace_looked_at_again() -> None:
    place = SpendNamespace()
    place.limit(onExceeded="Warn")
    place.job("a")
    operator = place.operator()
    operator.asks("a")
    operator.looked.clear()
    operator.asks("a")
    assert operator.looked == []


@pytest.mark.parametrize(
    "status",
    [
        {"workers": 1, "phase": "Running"},
        {"phase": "Succeeded"},
        {"meta": {"deletionTimestamp": "x"}},
    ],
)
def test_a_question_is_forgotten_once_a_job_runs_or_is_over(status: dict[str, object]) -> None:
    place = SpendNamespace()
    place.limit()
    place.job("a")
    operator = place.operator()
    assert operator.asks("a")
    place.job("a", **status)  # type: ignore[arg-type]
    place.see(operator)
    (facts,) = operator.spending.jobs_of(NAMESPACE)
    assert not facts.asks


def test_a_job_made_anew_under_its_old_name_has_to_ask_anew() -> None:
    place = SpendNamespace()
    place.limit()
    place.job("a")
    operator = place.operator()
    operator.spending.publish(NAMESPACE, {"uid-a": SpendVerdict(is_granted=True)})
    place.job("a", meta={"uid": "another"})
    place.see(operator)
    (facts,) = operator.spending.jobs_of(NAMESPACE)
    assert not facts.is_granted
    assert operator.said() == {}


def test_a_new_leader_remembers_no_answer() -> None:
    place = SpendNamespace()
    place.limit()
    place.job("a")
    operator = place.operator()
    operator.spending.publish(NAMESPACE, {"uid-a": SpendVerdict(is_granted=True)})
    operator.spending.forget_all()
    assert told(operator) is NOT_ASKED


def test_a_limit_that_changes_wakes_its_jobs_and_a_written_status_wakes_none() -> None:
    place = SpendNamespace()
    place.limit()
    place.job("a")
    operator = place.operator()
    operator.woken.clear()
    operator.looked.clear()
    place.get("team", "spendlimits")["metadata"]["resourceVersion"] = "90"
    place.see(operator)
    assert (operator.woken, operator.looked) == ([], [NAMESPACE])
    place.get("team", "spendlimits")["metadata"] |= {"resourceVersion": "91", "generation": 1}
    place.see(operator)
    assert operator.woken == ["a"]


def test_namespaces_are_looked_at_that_have_limits_or_had_some() -> None:
    place = SpendNamespace()
    place.job("a")
    operator = place.operator()
    assert (operator.spending.namespaces(), operator.looked) == (set(), [])
    place.job("a", meta=HELD)
    place.see(operator)
    assert (operator.spending.namespaces(), operator.looked) == ({NAMESPACE}, [NAMESPACE])


def test_a_limit_that_cannot_be_read_limits_nothing_and_the_log_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    place = SpendNamespace()
    place.job("a")
    place.limit(limitUsd="much")
    operator = place.operator()
    assert told(operator) is None
    assert operator.spending.limits_of(NAMESPACE) == []
    assert "spendlimit ns/team cannot be read, so it limits nothing" in caplog.text
    assert len(caplog.records) == 1, "it is read once for each version"


def test_what_a_job_has_spent_counts_even_if_its_spec_cannot_be_read() -> None:
    place = SpendNamespace()
    place.limit()
    place.job("a", workers=1, usd="7", spec=UNREADABLE, phase="Running", meta=HELD)
    (facts,) = place.operator().spending.jobs_of(NAMESPACE)
    assert (str(facts.usd), facts.workers, facts.asks) == ("$7.00", 1, False)
