"""Why a job waits, in the line that `kubectl get` shows."""

from typing import Any

import pytest

from spotrun.state.snapshot import Refusal
from spotrun.wire import Failure
from tests.support.jobs.builders import JobBuilder, a_job


def crashed() -> JobBuilder:
    boom = Failure(1, 1, "rank 0 ended with exit code 1: ValueError: no")
    job = a_job(1).training(0, in_process=False)
    return job.with_worker(0, ready=True, arrived=1, in_process=False, failed=boom)


NO_ROOM: dict[str, Any] = {"node": None, "unschedulable": "0/9 nodes are free"}


def made_anew() -> JobBuilder:
    job = a_job(2, min=2).with_worker(0, ready=True)
    lacking = job.with_worker(1, **NO_ROOM).decide().status
    return job.with_worker(1, node=None).with_state(lacking)


@pytest.mark.parametrize(
    ("job", "reason", "message"),
    [
        pytest.param(
            a_job(2, min=2),
            "WaitingForWorkers",
            "0 of at least 2 workers are ready, 0 have a node; pods are being created",
            id="a job in its first second",
        ),
        pytest.param(
            a_job(2, min=2).with_worker(0, ready=True).with_worker(1, node=None),
            "WaitingForWorkers",
            "1 of at least 2 workers are ready, 1 have a node; the scheduler looks for nodes",
            id="a worker that no scheduler has looked at yet",
        ),
        pytest.param(
            a_job(2, min=2).with_worker(0, ready=True).with_worker(1, **NO_ROOM),
            "WaitingForCapacity",
            "1 of at least 2 workers are ready, 1 have a node; 1 find no node: 0/9 nodes are free",
            id="a worker that finds no node",
        ),
        pytest.param(
            made_anew(),
            "WaitingForCapacity",
            "1 of at least 2 workers are ready, 1 have a node",
            id="a worker made anew after one that found no node",
        ),
        pytest.param(
            a_job(2, min=2).with_worker(0, ready=True).with_worker(1),
            "WaitingForWorkers",
            "1 of at least 2 workers are ready, 2 have a node",
            id="a worker that is not ready",
        ),
        pytest.param(
            a_job(1).with_facts(refusal=Refusal("Forbidden", "no such account")),
            "TemplateRefused",
            "Kubernetes refuses the workers: no such account",
            id="a template that is refused",
        ),
        pytest.param(
            crashed(),
            "ExitCode",
            "after ExitCode: 1 of 3 restarts, the next try at 2026-03-02T12:00:10Z; "
            "rank 0 ended with exit code 1: ValueError: no",
            id="a pause after a failure",
        ),
    ],
)
def test_the_reason_and_the_line(job: JobBuilder, reason: str, message: str) -> None:
    status = job.decide().status

    assert (status.reason, status.message) == (reason, message)
