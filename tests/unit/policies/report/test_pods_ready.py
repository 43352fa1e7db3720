"""Whether admitted workers are ready: the smallest world at first, then each growth."""

import pytest

from spotrun.api.names import Phase
from spotrun.policies.report.pods_ready import readiness
from spotrun.state.actions import TellReady
from spotrun.state.queue import Queue, Workload
from tests.support.jobs.builders import JobBuilder, a_job


def admitted(number: int, count: int, *, is_ready: bool = False, evicted: str = "") -> Workload:
    return Workload(
        f"w-{number}",
        f"uid-{number}",
        "1",
        number,
        count,
        is_reserved=True,
        is_admitted=True,
        admitted=count,
        is_ready=is_ready,
        evicted=evicted,
    )


def told(job: JobBuilder, *requests: Workload) -> dict[int, bool]:
    """Return what is told, by the number of the request."""
    view = job.with_facts(queue=Queue("team", "v1beta2", requests=requests)).view()
    said = readiness(view, view.job.status)
    return {one.request.number: one.is_ready for one in said}


@pytest.mark.parametrize(
    ("running", "requests", "expected"),
    [
        pytest.param(0, [admitted(0, 4)], {}, id="nothing is said before any was ready"),
        pytest.param(1, [admitted(0, 4)], {}, id="one does not make up a world"),
        pytest.param(2, [admitted(0, 4)], {0: True}, id="the smallest world does"),
        pytest.param(4, [admitted(0, 4, is_ready=True)], {}, id="what is said stays"),
        pytest.param(3, [admitted(0, 4, is_ready=True)], {}, id="a loss that leaves a world"),
        pytest.param(1, [admitted(0, 4, is_ready=True)], {0: False}, id="one that leaves none"),
        pytest.param(3, [admitted(0, 2), admitted(1, 2)], {0: True}, id="growth needs all"),
        pytest.param(4, [admitted(0, 2), admitted(1, 2)], {0: True, 1: True}, id="and has them"),
        pytest.param(
            3, [admitted(0, 2, is_ready=True), admitted(1, 2, is_ready=True)], {1: False}, id="lost"
        ),
        pytest.param(2, [admitted(0, 1), admitted(1, 1)], {0: True, 1: True}, id="of two"),
        pytest.param(0, [admitted(0, 4, is_ready=True, evicted="Preempted")], {}, id="evicted"),
    ],
)
def test_requests_are_ready_with_the_smallest_world_and_growth_with_all_its_workers(
    running: int, requests: list[Workload], expected: dict[int, bool]
) -> None:
    assert told(a_job(4, min=2).training(*range(running)), *requests) == expected


def test_workers_that_nobody_wants_any_more_are_not_waited_for() -> None:
    shrinks = a_job(2, min=1).training(0, 1)
    grown = [admitted(0, 1, is_ready=True), admitted(1, 3, is_ready=True)]
    assert told(shrinks, *grown) == {}


def test_nothing_is_told_of_a_job_that_is_over_or_waits_for_no_queue() -> None:
    over = a_job(2).training(0, 1).with_status(phase=Phase.SUCCEEDED)
    assert told(over, admitted(0, 2)) == {}
    view = a_job(2).training(0, 1).view()
    assert list(readiness(view, view.job.status)) == []


def test_a_decision_tells_it() -> None:
    one = admitted(0, 2)
    job = a_job(2).training(0, 1).with_facts(queue=Queue("team", "v1beta2", requests=(one,)))
    assert TellReady(one, is_ready=True) in job.decide().actions
