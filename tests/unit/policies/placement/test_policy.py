"""The workers that are missing: how many, and which part each will hold."""

from typing import Any

import pytest

from spotrun.policies.placement.policy import missing, missing_parts
from spotrun.state.replicas import Part
from tests.support.jobs.builders import JobBuilder, a_job, ago
from tests.support.money.pool_builders import a_node_of, a_spot_pool, on_market

A = a_spot_pool("a")


def there(job: JobBuilder, *parts: tuple[int, int | None], **worker: Any) -> JobBuilder:
    """Return the job with workers that hold these slots of these replicas."""
    for worker_id, (slot, replica) in enumerate(parts):
        node = a_node_of(A, worker_id, ago(60))
        job = job.with_worker(worker_id, node=node, slot=slot, replica=replica, **worker)
    return job


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param([], [Part(0, -1), Part(1, -1), Part(0, -2), Part(1, -2)], id="none is there"),
        pytest.param([(0, 0), (1, 0)], [Part(0, -1), Part(1, -1)], id="one is whole"),
        pytest.param([(0, 0), (1, 0), (0, 2)], [Part(1, 2)], id="one lacks a worker"),
        pytest.param([(0, 0), (1, 2)], [Part(0, 2), Part(1, 0)], id="two lack one each"),
        pytest.param([(0, 0), (0, 2), (0, 4)], [Part(1, 0), Part(1, 2)], id="too many of a part"),
        pytest.param([(0, None), (1, None)], [Part(0, -1), Part(1, -1)], id="made beside nobody"),
        pytest.param([(0, 0), (1, 0), (0, 2), (1, 2)], [], id="all are there"),
    ],
)
def test_the_parts_that_are_missing(
    parts: list[tuple[int, int | None]], expected: list[Part]
) -> None:
    job = there(on_market(a_job(4, min=2, perReplica=2), A), *parts)
    found = missing_parts(job.view(), job.status, 4)
    assert [part for part, _ in found] == expected
    assert len(missing(job.view(), job.status, 4)) == len(expected)


def test_without_replicas_there_are_no_parts() -> None:
    job = on_market(a_job(2), A)
    assert [part for part, _ in missing_parts(job.view(), job.status, 2)] == [Part(0), Part(0)]
