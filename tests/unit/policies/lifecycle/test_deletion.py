"""When a finished job is deleted."""

import pytest

from spotrun.api.names import ConditionType
from spotrun.state.actions import DeleteJob
from spotrun.wire import Ending
from tests.support.jobs.builders import an_end
from tests.support.jobs.finished_jobs import MEMBER, SPARE, over


@pytest.mark.parametrize(("seconds", "deleted"), [(59, False), (60, True)])
def test_a_finished_job_is_deleted_when_its_time_is_over(seconds: float, deleted: bool) -> None:
    job = over(ConditionType.FAILED, seconds, finished={"deleteAfter": "1m"})
    job = job.without(MEMBER).without(SPARE)
    found = [a for a in job.decide().actions if isinstance(a, DeleteJob)]
    assert bool(found) is deleted
    assert deleted or job.decide().wake_after_seconds == 1


@pytest.mark.parametrize("kind", [ConditionType.FAILED, ConditionType.COMPLETE])
def test_a_finished_job_is_not_deleted_before_its_workers_are_gone(kind: ConditionType) -> None:
    job = over(kind, 90, finished={"deleteAfter": "1m"}).without(SPARE)
    assert DeleteJob not in [type(action) for action in job.decide().actions]
    ended = job.with_worker(MEMBER, ready=True, arrived=1, **an_end(Ending.COMPLETED))
    assert DeleteJob in [type(action) for action in ended.decide().actions]
