"""A slow device or network is named by what workers measured before the first step."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from spotrun.api.names import ConditionType
from spotrun.state.conditions import find
from spotrun.state.snapshot import Reading
from spotrun.wire import Progress
from tests.support.jobs.builders import NOW, JobBuilder, a_job
from tests.support.jobs.decided import condition, message_of
from tests.support.jobs.sized_jobs import READING, a_member

KIND = ConditionType.EVEN_SPEED
NAMED = ("False", "SlowWorker")
said = partial(message_of, kind=KIND)
Speeds = tuple[float | None, float | None]  # of devices, of networks


def a_job_that_measured(*speeds: Speeds, types: tuple[str, ...] = ()) -> JobBuilder:
    job = a_job(len(speeds)).training(*range(len(speeds)))
    members = {}
    for n, (flops, link_bytes) in enumerate(speeds):
        told = Progress(1, 0, flops=flops, link_bytes=link_bytes)
        members[n] = a_member(n, None, progress=told)
        if types:
            node = members[n].node
            assert node is not None
            members[n] = replace(members[n], node=replace(node, instance_type=types[n]))
    return replace(job, workers={**job.workers, **members})


@pytest.mark.parametrize(
    ("speeds", "named"),
    [
        (((1e12, 1e9), (1e12, 1e9), (1e12, 1e9)), None),
        (((1e12, 1e9), (0.78e12, 1e9), (1e12, 1e9)), None),
        (((1e12, 1e9), (0.76e12, 1e9), (1e12, 1e9)), NAMED),
        (((1e12, None), (0.5e12, None)), NAMED),
        (((1e12, None), (None, None)), None),  # with nothing to compare it with
        (((1e12, None),), None),
        (((1e12, 1e9), (1e12, 0.6e9), (1e12, 1e9)), None),
        (((1e12, 1e9), (1e12, 0.5e9), (1e12, 1e9)), NAMED),
        (((0.0, 0.0), (1e12, 1e9)), None),  # nothing was measured
    ],
)
def test_one_that_is_much_slower_is_named(
    speeds: tuple[Speeds, ...], named: tuple[str, str] | None
) -> None:
    assert condition(a_job_that_measured(*speeds), KIND) == named


def test_the_message_names_worker_node_and_speeds() -> None:
    job = a_job_that_measured((9e12, 1e9), (3e12, 1e9), (9e12, 1e9))
    assert said(job.decide().status) == (
        f"worker 1 on node {job.workers[1].pod.node} is slow: before the first step the devices "
        "of others computed more than 3 times as fast (9e+03 against 3e+03 GFLOP/s)"
    )
    job = a_job_that_measured((9e12, 1.2e9), (9e12, 1.2e9), (9e12, 0.4e9))
    assert said(job.decide().status) == (
        f"worker 2 on node {job.workers[2].pod.node} is slow: before the first step the networks "
        "of others sent more than 3 times as fast (1.2 against 0.4 GB/s)"
    )


def test_only_nodes_of_one_type_are_compared() -> None:
    speeds = ((9e12, None), (3e12, None), (9e12, None), (3e12, None))
    mixed = a_job_that_measured(*speeds, types=("big", "small", "big", "small"))
    assert condition(mixed, KIND) is None
    alike = a_job_that_measured(*speeds, types=("big", "big", "big", "small"))
    assert condition(alike, KIND) == NAMED


def test_once_steps_are_measured_they_count() -> None:
    job = a_job_that_measured((9e12, None), (3e12, None))
    named = job.decide().status
    assert find(named, KIND) is not None
    even = _read(job, dict.fromkeys(job.workers, READING))
    later = even.with_state(named).decide(NOW + timedelta(minutes=1))
    assert find(later.status, KIND) is None


def test_one_whose_steps_were_measured_is_not_named_in_a_later_world() -> None:
    """Only a worker that is new there is, also compared with those that are not."""
    job = a_job_that_measured((9e12, None), (3e12, None), (9e12, None), (4e12, None))
    few = Reading(world_number=1, ever_enough=True)
    assert condition(_read(job, dict.fromkeys(range(4), few)), KIND) is None
    one_is_new = _read(job, dict.fromkeys(range(3), few))
    assert said(one_is_new.decide().status).startswith("worker 3 on node")


def _read(job: JobBuilder, readings: Mapping[int, Reading]) -> JobBuilder:
    """Return the job with what the operator has read of these workers' steps."""
    agents = {n: job.workers[n].agent for n in readings}
    read = {
        n: replace(job.workers[n], agent=replace(agent, reading=readings[n]))
        for n, agent in agents.items()
        if agent is not None
    }
    return replace(job, workers={**job.workers, **read})
