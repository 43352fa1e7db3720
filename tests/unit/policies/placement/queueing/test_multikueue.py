"""Jobs between clusters: here one only asks, there one uses what was asked."""

import pytest

from spotrun.api.names import Phase, SuspendedBy
from spotrun.state.actions import (
    AcceptEviction,
    Action,
    AdoptRequest,
    AskQueue,
    FinishRequest,
    LeaveQueue,
    ReturnQuota,
)
from spotrun.state.queue import Workload
from tests.support.jobs.builders import JobBuilder, a_job
from tests.unit.policies.placement.queueing.test_kueue import (
    admitted,
    asked,
    evicted,
    queued,
    waiting,
)

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
FINISHED = waiting(0, 2, is_finished=True)


def handed_over(*requests: Workload, to: str = MULTIKUEUE, **spec: object) -> JobBuilder:
    return queued(a_job(2, min=2, managedBy=to, **spec), *requests)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        pytest.param(handed_over(), [AskQueue(0, 2)], id="it asks for its workers"),
        pytest.param(handed_over(waiting(0, 2)), [], id="once"),
        pytest.param(
            handed_over(waiting(0, 1)), [AskQueue(0, 2, None, waiting(0, 1))], id="another number"
        ),
        pytest.param(
            queued(a_job(4, min=2, managedBy=MULTIKUEUE), admitted(0, 2)),
            [],
            id="no more once it was admitted, in part or not",
        ),
        pytest.param(handed_over(FINISHED), [], id="nor when it has ended"),
        pytest.param(
            handed_over(evicted(0, 2)), [AcceptEviction(evicted(0, 2))], id="it lets go at once"
        ),
        pytest.param(
            handed_over(admitted(0, 2), suspend=True),
            [LeaveQueue(admitted(0, 2))],
            id="its user suspends it",
        ),
        pytest.param(handed_over(to="example.com/other"), [], id="somebody else's is left alone"),
        pytest.param(handed_over().with_facts(deleting=True), [], id="it is deleted"),
        pytest.param(
            queued(a_job(2, managedBy=MULTIKUEUE), api_version=""), [], id="there is no Kueue"
        ),
    ],
)
def test_of_a_job_that_runs_elsewhere_only_the_request_is_made(
    job: JobBuilder, expected: list[Action]
) -> None:
    decision = job.decide()
    assert list(decision.actions) == expected
    assert decision.status == job.snapshot().status
    assert decision.announcements == ()


def prebuilt(job: JobBuilder, *requests: Workload) -> JobBuilder:
    return queued(job, *requests, prebuilt="w-0")


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        pytest.param(prebuilt(a_job(2)), [], id="it waits for the one that was made"),
        pytest.param(
            prebuilt(a_job(2), admitted(0, 2, is_owned=False)),
            [AdoptRequest(admitted(0, 2, is_owned=False))],
            id="it makes it its own",
        ),
        pytest.param(
            prebuilt(a_job(4, min=2).training(0, 1), admitted(0, 2)), [], id="asks for no growth"
        ),
        pytest.param(
            prebuilt(a_job(1, max=4).training(0), admitted(0, 2)),
            [ReturnQuota(admitted(0, 2), 1)],
            id="gives back what it does not want",
        ),
        pytest.param(
            prebuilt(a_job(2), admitted(0, 2, asks_as_now=False)), [], id="of another template"
        ),
        pytest.param(
            prebuilt(a_job(2, suspend=True), admitted(0, 2)), [], id="keeps it while suspended"
        ),
        pytest.param(
            prebuilt(a_job(2), evicted(0, 2)), [AcceptEviction(evicted(0, 2))], id="lets go of it"
        ),
        pytest.param(
            prebuilt(a_job(2).with_status(phase=Phase.SUCCEEDED, message="done"), admitted(0, 2)),
            [FinishRequest(admitted(0, 2), has_succeeded=True, why="done")],
            id="says that it has ended",
        ),
    ],
)
def test_in_the_other_cluster_the_request_that_was_made_is_used(
    job: JobBuilder, expected: list[Action]
) -> None:
    assert asked(job) == expected


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ((), "the job waits for Workload w-0, which Kueue of another cluster creates"),
        ((admitted(0, 2, asks_as_now=False),), "was made for other workers, or another queue"),
        ((waiting(0, 2, words="no quota"),), "the job waits in queue team: no quota"),
    ],
)
def test_the_job_says_what_it_waits_for(requests: tuple[Workload, ...], said: str) -> None:
    status = prebuilt(a_job(2), *requests).decide().status
    assert status.suspended_by == (SuspendedBy.QUEUE,)
    assert said in (status.message or "")
