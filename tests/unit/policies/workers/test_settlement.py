from typing import Any

import pytest

from spotrun.state.actions import Create, Release, Remove
from spotrun.state.snapshot import PodPhase
from spotrun.wire import Ending
from tests.support.jobs.builders import a_job, an_end, later


def test_a_failed_worker_is_settled_released_and_replaced_after_the_pause() -> None:
    job = a_job(1).with_worker(0, **an_end(Ending.FAILED, 3))
    decision = job.decide()
    assert (str(decision.status.settled), decision.status.next_worker_id) == ("0", 2)
    assert decision.actions == (Release(0, "uid-0"),)
    after = job.with_state(decision.status).decide(later(10))
    assert after.actions == (Release(0, "uid-0"), Create(1))


@pytest.mark.parametrize(
    ("end", "reason"), [(an_end(Ending.DEPARTED), "Completed"), (an_end(None, 1), "ExitCode")]
)
def test_a_pod_that_side_containers_keep_busy_is_removed_and_settled_once_they_have_ended(
    end: dict[str, Any], reason: str
) -> None:
    running = {**end, "phase": PodPhase.RUNNING}
    decision = a_job(1).with_worker(0, **running).decide()
    assert not decision.status.settled.size
    removed = [(a.worker_id, a.reason) for a in decision.actions if isinstance(a, Remove)]
    assert removed == [(0, reason)]
    over = a_job(1).with_worker(0, **end).decide()
    assert str(over.status.settled) == "0"
    assert not any(isinstance(action, Remove) for action in over.actions)


def test_numbers_owed_to_a_suspended_job_are_settled_without_a_pod() -> None:
    decision = a_job(2, suspend=True).with_status(next_worker_id=2).decide()
    assert (str(decision.status.settled), decision.actions) == ("0-1", ())


def test_of_a_deleted_job_only_settled_pods_are_released() -> None:
    job = a_job(2).with_worker(0, **an_end()).with_worker(1).with_facts(deleting=True)
    assert job.decide().actions == (Release(0, "uid-0"),)
