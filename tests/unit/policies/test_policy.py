"""A policy that leaves a part out does nothing there."""

import pytest

from spotrun.policies.chain import POLICIES
from spotrun.policies.policy import Policy, Wakes
from tests.support.jobs.builders import NOW, JobBuilder, a_job

TRAINS, WAITS = a_job(2).training(0, 1), a_job(2)


@pytest.mark.parametrize("job", [TRAINS, WAITS], ids=["trains", "waits"])
def test_a_policy_of_no_parts_concludes_does_and_announces_nothing(job: JobBuilder) -> None:
    view, status, policy = job.view(), job.status, Policy()
    assert policy.conclude(view, status) is status
    assert policy.wake_after_seconds(view, status) is None
    assert (tuple(policy.actions(view, status)), tuple(policy.announce(view, status))) == ((), ())
    assert (policy.wakes, policy.is_for_readers) == (Wakes.UNTIL_FINISHED, False)


@pytest.mark.parametrize("job", [TRAINS, WAITS], ids=["trains", "waits"])
def test_every_policy_of_the_chain_can_be_asked_alone_and_answers_the_same_twice(
    job: JobBuilder,
) -> None:
    for policy in POLICIES:
        first, again = (policy.conclude(job.view(NOW), job.status) for _ in range(2))
        assert first == again
