"""Which workers are lent to pods of higher priority."""

from typing import Any

import pytest

from spotrun.state.actions import Create, Remove
from tests.support.jobs.builders import JobBuilder, a_job, world


def a_lender(workers: int, *, lend: dict[str, Any] | None = None, **spec: Any) -> JobBuilder:
    lent = {"priorityClassName": "low", **(lend or {})}
    return a_job(workers, placement={"lend": lent}, **spec)


def made(job: JobBuilder) -> dict[int, bool]:
    """Whether each new worker is lent."""
    return {one.worker_id: one.lent for one in job.decide().actions if isinstance(one, Create)}


@pytest.mark.parametrize(
    ("lend", "lent"),
    [
        ({}, [False, False, True, True]),  # workers.min
        ({"atLeast": 1}, [False, True, True, True]),
        ({"atLeast": 0}, [True] * 4),
        ({"atLeast": 9}, [False] * 4),
    ],
)
def test_workers_beyond_the_number_that_is_kept_are_lent(
    lend: dict[str, Any], lent: list[bool]
) -> None:
    assert list(made(a_lender(4, min=2, lend=lend)).values()) == lent


def test_a_job_that_lends_nothing_makes_no_lent_worker() -> None:
    assert made(a_job(2, min=1)) == {0: False, 1: False}


def test_the_replacement_of_a_kept_worker_is_kept_and_that_of_a_lent_one_lent() -> None:
    job = a_lender(3, min=1)
    assert made(job.with_workers(1, 2, lent=True)) == {0: False}
    lost = job.with_worker(0).with_worker(1, lent=True).with_worker(2, lent=True, deleting=True)
    assert made(lost) == {3: True}


def test_a_replica_is_kept_or_lent_as_a_whole() -> None:
    lent = made(a_lender(4, min=2, perReplica=2))
    assert list(lent.values()) == [False, False, True, True]
    half = a_lender(4, min=2, perReplica=2).with_worker(0, slot=0, replica=0)
    half = half.with_worker(2, slot=0, replica=2, lent=True).with_worker(
        3, slot=1, replica=2, lent=True
    )
    assert made(half) == {1: False}


def test_lent_workers_leave_a_world_and_go_before_kept_ones() -> None:
    three = a_lender(1, min=1, max=3).training(0, 1, 2)
    job = three.with_worker(0, ready=True, arrived=1, lent=True)
    job = job.with_worker(2, ready=True, arrived=1, lent=True)
    assert world(three).members == (0,), "where none is lent"
    assert world(job).members == (1,)

    spare = a_lender(1, min=1, max=3).training(1).with_worker(0, lent=True).with_worker(2)
    assert [a.worker_id for a in spare.decide().actions if isinstance(a, Remove)] == [0, 2]
