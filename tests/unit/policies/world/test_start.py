import pytest

from spotrun.api.status import Entry
from spotrun.policies.world.policy import wake_after_seconds
from spotrun.state.job_state import NO_WORLD
from spotrun.state.stored.failures import Restarts
from tests.support.jobs.builders import (
    a_job,
    decided_world,
    later,
    world,
)

PAUSING = Restarts(failures=1, retry_at=later(5), last_world=1)


def test_a_world_forms_as_soon_as_all_are_ready() -> None:
    job = a_job(2).with_workers(0, 1, ready=True)
    assert decided_world(job) == (1, "0-1", True, Entry.RESTART, None)


@pytest.mark.parametrize(
    ("ages", "members"), [((29.0, 29.0), ()), ((30.0, 29.0), ()), ((40.0, 30.0), (0, 1))]
)
def test_the_smallest_world_waits_for_the_rest_of_its_gang(
    ages: tuple[float, ...], members: tuple[int, ...]
) -> None:
    job = a_job(3, min=2).with_worker(2, ready=False)
    for worker_id, age in enumerate(ages):
        job = job.with_worker(worker_id, ready=True, ready_for=age)
    assert world(job).members == members
    if not members:
        assert wake_after_seconds(job.view(), job.status) == 30.0 - min(ages)


def test_no_world_forms_in_the_pause_after_a_failure() -> None:
    job = a_job(1).with_worker(0, ready=True).with_status(restarts=PAUSING)
    assert world(job) is NO_WORLD
    assert job.decide().wake_after_seconds == 5.0


def test_a_world_has_one_of_the_sizes_allowed() -> None:
    job = a_job(4, sizes=[2, 4]).with_workers(0, 1, 2, ready=True, ready_for=31)
    assert decided_world(job) == (1, "0-1", True, Entry.RESTART, None)


def test_a_first_world_restores_the_acknowledged_checkpoint_and_spends_a_store() -> None:
    new = world(a_job(1).with_worker(0, ready=True).with_checkpoint(7))
    assert (new.restore, new.store, new.used_stores) == (
        "step-7.g1",
        "10.0.0.0:20000",
        ("10.0.0.0:20000",),
    )
