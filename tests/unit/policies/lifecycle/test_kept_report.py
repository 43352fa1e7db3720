"""When the report of a finished job is kept."""

import pytest

from spotrun.api.field_types.text_values import WorkerIds
from spotrun.api.names import ANNOTATION_KEPT_REPORT, ConditionType
from spotrun.state.actions import DeleteJob, KeepReport
from spotrun.wire import Ending
from tests.support.jobs.builders import JobBuilder, an_end
from tests.support.jobs.finished_jobs import MEMBER, SPARE, over

KEEP = {"report": True}


def kept(job: JobBuilder) -> int:
    return sum(isinstance(action, KeepReport) for action in job.decide().actions)


def settled(job: JobBuilder) -> JobBuilder:
    """The same job when all its workers are gone and paid."""
    gone = job.without(MEMBER).without(SPARE)
    return gone.with_status(next_worker_id=2, settled=WorkerIds("0-1").ranges)


@pytest.mark.parametrize("kind", [ConditionType.FAILED, ConditionType.COMPLETE])
def test_a_report_is_kept_once_the_cost_is_final(kind: ConditionType) -> None:
    job = over(kind, 10, finished=KEEP)
    assert kept(job) == 0
    ended = job.with_worker(MEMBER, ready=True, arrived=1, **an_end(Ending.COMPLETED))
    assert kept(ended) == 0
    assert kept(settled(job)) == 1


@pytest.mark.parametrize("finished", [None, {}, {"report": False}], ids=str)
def test_nobody_who_did_not_ask_gets_one(finished: dict[str, bool] | None) -> None:
    assert kept(settled(over(ConditionType.FAILED, 10, finished=finished))) == 0


def test_a_job_that_says_it_has_one_gets_no_other() -> None:
    job = settled(over(ConditionType.FAILED, 10, finished=KEEP))
    assert kept(job.with_facts(annotated={str(ANNOTATION_KEPT_REPORT): "job-x-report"})) == 0


def test_a_job_that_goes_by_itself_waits_for_its_report() -> None:
    job = settled(over(ConditionType.FAILED, 90, finished={**KEEP, "deleteAfter": "1m"}))
    assert [type(one) for one in job.decide().actions] == [KeepReport]
    noted = job.with_facts(annotated={str(ANNOTATION_KEPT_REPORT): "job-x-report"})
    assert [type(one) for one in noted.decide().actions] == [DeleteJob]
