"""What a decision takes grows no faster than the job: counted, not timed."""

import sys
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from types import FrameType
from typing import Any

import pytest
from typing_extensions import override

from spotrun.api.names import Phase
from spotrun.money.shares import Resources
from spotrun.policies.chain import decide
from spotrun.state.market import Market
from spotrun.state.snapshot import JobSnapshot
from tests.support.jobs.builders import NOW, JobBuilder, a_job, a_worker
from tests.support.jobs.large_jobs import arrived, with_all
from tests.support.money.pool_builders import a_spot_pool

SMALL, TIMES = 75, 4
ALLOWED = 1.15
"""Growth beyond the job's own: sorting takes n log n."""


def fresh(workers: int) -> JobBuilder:
    has = Resources(Decimal(8), Decimal(2**33), 1)
    pools = [a_spot_pool(f"p{n}", allocatable=has, free_slots=1000) for n in range(16)]
    deadline = {"finishWithin": "9h"}
    return a_job(workers, min=1, deadline=deadline).with_facts(market=Market(tuple(pools)))


def waiting(workers: int) -> JobBuilder:
    full: dict[str, Any] = {"node": None, "unschedulable": "0/3 nodes are available"}
    return with_all(fresh(workers), [a_worker(n, **full) for n in range(workers)])


def starting(workers: int) -> JobBuilder:
    return with_all(fresh(workers), [a_worker(n, ready=n % 2 == 0) for n in range(workers)])


def training(workers: int, **every_tenth: Any) -> JobBuilder:
    pods = [
        arrived(a_worker(n, ready=True, arrived_for=50.0, **({} if n % 10 else every_tenth)), 1)
        for n in range(workers)
    ]
    job = fresh(workers).with_world(f"0-{workers - 1}", store="10.0.0.1:1")
    return with_all(job.with_status(phase=Phase.RUNNING), pods)


def noticed(workers: int) -> JobBuilder:
    return training(workers, leaves_in=120.0)


def losing(workers: int) -> JobBuilder:
    job = training(workers)
    lost = dict(job.workers)
    for n in range(0, workers, 10):
        node = lost[n].node
        assert node is not None, "each has one"
        lost[n] = replace(lost[n], node=replace(node, gone=True))
    return replace(job, workers=lost)


def growing(workers: int) -> JobBuilder:
    """The second half is ready to join."""
    half = workers // 2
    pods = dict(training(workers).workers)
    pods |= {n: a_worker(n, ready=True, ready_for=60.0) for n in range(half, workers)}
    job = fresh(workers).with_world(f"0-{half - 1}", store="10.0.0.1:1")
    return with_all(job.with_status(phase=Phase.RUNNING), pods.values())


SHAPES = [fresh, waiting, starting, training, noticed, losing, growing]


@pytest.mark.parametrize("shape", SHAPES)
def test_calls_of_functions(shape: Callable[[int], JobBuilder]) -> None:
    few, many = (calls(shape(SMALL * times).snapshot()) for times in (1, TIMES))
    assert many <= ALLOWED * TIMES * few


@pytest.mark.parametrize("shape", SHAPES)
def test_comparisons_of_worker_ids(shape: Callable[[int], JobBuilder]) -> None:
    """A search in a list of workers calls no function, so it is not among the calls."""
    few, many = (comparisons(shape(SMALL * times).snapshot()) for times in (1, TIMES))
    assert many <= ALLOWED * TIMES * few


class Counted(int):
    """A worker id that counts how often it is compared."""

    compared = 0

    @override
    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return int(self) == other

    @override
    def __hash__(self) -> int:
        return int.__hash__(self)


def comparisons(job: JobSnapshot) -> int:
    world = job.status.world
    counted = replace(world, members=tuple(map(Counted, world.members)))
    Counted.compared = 0
    decide(replace(job, status=replace(job.status, world=counted)), NOW)
    return Counted.compared


def calls(job: JobSnapshot) -> int:
    """Count the calls of our functions in a decision."""
    found = 0

    def note(_frame: FrameType, event: str, _what: object) -> None:
        nonlocal found
        found += event == "call"

    decide(job, NOW)  # what is worked out once only is
    sys.setprofile(note)
    try:
        decide(job, NOW)
    finally:
        sys.setprofile(None)
    return found
