from dataclasses import replace
from datetime import timedelta

import pytest

from spotrun.api.names import Phase
from spotrun.policies.report.cost_announcements import cost_of_deleted
from spotrun.state.actions import Annotate, Decision
from tests.support.jobs.builders import NOW, a_job, an_end
from tests.support.money.priced_nodes import a_node
from tests.support.money.trained_steps import NODE, after, training_at


def annotated(decision: Decision) -> dict[str, str] | None:
    found = [dict(one.annotations) for one in decision.actions if isinstance(one, Annotate)]
    return found[0] if found else None


def reported(usd: str) -> dict[str, dict[str, str]]:
    return {"annotated": {"spotrun.dev/cost-usd": usd, "spotrun.dev/cost-usd-per-hour": "2"}}


@pytest.mark.parametrize(
    ("usd", "is_due"),
    [
        pytest.param("2", False, id="as it is"),
        pytest.param("1.95", False, id="by less than 5 percent"),
        pytest.param("1.9", True, id="by more"),
        pytest.param("0", True, id="for the first time"),
        pytest.param("999999999999", True, id="where somebody has written more"),
        *(
            pytest.param(text, True, id=f"where somebody has written {text}")
            for text in ("NaN", "-Infinity", "1e999999999", "free", "")
        ),
    ],
)
def test_annotations_follow_the_cost_in_steps(usd: str, is_due: bool) -> None:
    job = training_at(100).with_facts(**reported(usd))
    found = annotated(job.decide())
    assert (found is not None) is is_due
    if found is not None:
        assert found["spotrun.dev/cost-usd"] == "2"
        assert found["spotrun.dev/cost-as-of"] == "2026-03-02T12:00:00Z"


def test_annotations_follow_phases() -> None:
    job = training_at(100).with_facts(**reported("1.95")).with_status(phase=Phase.RECOVERING)
    assert annotated(job.decide()) is not None


def test_a_small_job_is_not_annotated_cent_by_cent() -> None:
    job = training_at(100, scheduled_at=NOW - timedelta(seconds=10)).with_facts(**reported("0.001"))
    assert annotated(job.decide()) is None


def test_the_last_annotations_are_exact_and_the_last_event_says_the_cost() -> None:
    job = training_at(100, **an_end(None, 0), ended_at=NOW).with_facts(**reported("1.9999"))
    job = job.with_status(phase=Phase.SUCCEEDED, reason="Completed")
    decision = job.decide()
    found = annotated(decision)
    assert found is not None
    assert found["spotrun.dev/cost-usd"] == "2"
    [last] = decision.announcements
    assert (last.reason, last.message) == ("Completed", "the job has cost $2.00 in all")
    again = after(job, decision).with_facts(annotated=found)
    assert (annotated(again.decide()), again.decide().announcements) == (None, ())


def test_a_job_of_unknown_price_is_not_annotated() -> None:
    unknown = replace(NODE, prices=a_node(usd_per_hour=None).prices)
    assert annotated(training_at(100, node=unknown).decide()) is None


def test_of_a_deleted_job_is_told_what_it_had_cost_by_then() -> None:
    job = training_at(100)
    stored = after(job, job.decide())
    [reported] = cost_of_deleted(stored.snapshot(), NOW + timedelta(minutes=30))
    words = "the job was deleted: it had cost $3.00 until then, $2.00/h at last"
    assert (reported.reason, reported.message) == ("Deleted", words)


def test_of_a_job_that_cost_nothing_any_more_nothing_is_told_when_it_is_deleted() -> None:
    job = training_at(100, **an_end(None, 0), ended_at=NOW)
    over = after(job, job.decide())
    assert cost_of_deleted(over.snapshot(), NOW) == ()
    assert cost_of_deleted(a_job(1).snapshot(), NOW) == ()
