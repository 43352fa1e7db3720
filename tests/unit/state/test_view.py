"""How many workers a job is to have: what its user asked for, within what limits it."""

import pytest

from spotrun.api.names import Phase, Reason, SuspendedBy
from spotrun.state.sizes import SizeLimit
from spotrun.state.view import target_size
from tests.support.jobs.builders import JobBuilder, a_job

JOB = a_job(8, min=2)
RATE, CAPACITY = SizeLimit(Reason.RATE_LIMITED, 6), SizeLimit(Reason.WAITING_FOR_CAPACITY, 4)
STABLE = SizeLimit(Reason.RATE_LIMITED, stable_workers=3)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        pytest.param(JOB, 8, id="as many as are asked for"),
        pytest.param(JOB.with_status(suspended_by=(SuspendedBy.USER,)), 0, id="it is suspended"),
        pytest.param(JOB.with_status(phase=Phase.SUCCEEDED), 0, id="it is over"),
        pytest.param(JOB.with_facts(deleting=True), 0, id="it is being deleted"),
    ],
)
def test_nobody_is_wanted_where_a_job_may_not_run(job: JobBuilder, expected: int) -> None:
    assert target_size(job.view(), job.status) == expected


def test_limits_leave_what_the_user_wrote() -> None:
    view = JOB.view()
    limited = view.limited(RATE).limited(CAPACITY)
    assert [target_size(one, JOB.status) for one in (view, view.limited(RATE), limited)] == [
        8,
        6,
        4,
    ]
    assert limited.job is view.job
    assert limited.unlimited is view


@pytest.mark.parametrize(
    ("limits", "tightest", "max_stable_workers"),
    [
        ((), None, None),
        ((RATE,), RATE, None),
        ((RATE, CAPACITY), CAPACITY, None),
        ((STABLE,), None, 3),
        ((STABLE, CAPACITY), CAPACITY, 3),
    ],
)
def test_who_limits_a_size_is_known(
    limits: tuple[SizeLimit, ...], tightest: SizeLimit | None, max_stable_workers: int | None
) -> None:
    view = JOB.view()
    for limit in limits:
        view = view.limited(limit)
    assert (view.tightest_limit, view.max_stable_workers) == (tightest, max_stable_workers)
