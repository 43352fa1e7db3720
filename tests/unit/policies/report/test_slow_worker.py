"""A worker for which all others wait is named, with its node and with what takes long."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from spotrun.api.names import ConditionType, Reason
from spotrun.policies.report.events import announcements
from spotrun.state.conditions import find
from spotrun.state.snapshot import Reading
from spotrun.wire import Progress
from tests.support.jobs.builders import NOW, JobBuilder, a_job
from tests.support.jobs.decided import condition, message_of
from tests.support.jobs.sized_jobs import READING, a_member, with_readings

KIND = ConditionType.EVEN_SPEED
NAMED = ("False", "SlowWorker")
said = partial(message_of, kind=KIND)


def measured(compute: float, data: float = 0.0, *, step: float = 2.0) -> Reading:
    """A worker that computes and waits for data for so many seconds of a step."""
    shares = compute / step, data / step
    return replace(
        READING,
        step_seconds=step,
        compute=shares[0],
        data=shares[1],
        communicate=1.0 - sum(shares),
    )


def a_training(*own: float | Reading | None, **spec: object) -> JobBuilder:
    """A job of as many workers, each of which computes for so many seconds."""
    readings = [measured(one) if isinstance(one, float) else one for one in own]
    return with_readings(a_job(len(own), **spec), *readings)


@pytest.mark.parametrize(
    ("own", "named"),
    [
        ((1.0, 1.0, 1.0), None),
        ((1.0, 1.0, 1.29), None),
        ((1.0, 1.0, 1.31), NAMED),
        ((1.31, 1.0), NAMED),
        ((1.0, 1.0, None), None),
        ((1.9, None, None), None),  # with nobody to compare it with
        ((1.9, 1.0, None), NAMED),
        ((0.1, 0.1, 0.15), None),  # a fortieth of a step: not worth a word
        ((1.9,), None),
    ],
)
def test_one_that_takes_much_longer_is_named(
    own: tuple[float | None, ...], named: tuple[str, str] | None
) -> None:
    assert condition(a_training(*own), KIND) == named


@pytest.mark.parametrize(
    ("slow", "level"), [(1.31, "1.3"), (1.6, "1.5"), (1.99, "1.5"), (2.0, "2"), (9.0, "5")]
)
def test_the_message_names_worker_node_and_cause(slow: float, level: str) -> None:
    job = with_readings(a_job(3), *(measured(one, step=10.0) for one in (1.0, slow, 1.0)))
    if slow < 2.0:  # else it is not worth a word in so long a step
        job = a_training(1.0, slow, 1.0)
    message = said(job.decide().status)
    node = job.workers[1].pod.node
    assert message.startswith(f"worker 1 on node {node} takes more than {level} times as long")
    assert message.endswith("it computes longer")


def test_one_that_waits_for_its_data_is_told_from_one_that_computes() -> None:
    slow = measured(1.0, 0.8)
    assert said(a_training(1.0, 1.0, slow).decide().status).endswith("it waits longer for its data")


def test_what_lowers_its_clock_is_told() -> None:
    job = a_training(1.0, 1.9, 1.0)
    agent = job.workers[1].agent
    assert agent is not None
    report = replace(agent.report, low_clock="GPU-1 (serial number 165): it is too hot")
    slow = replace(job.workers[1], agent=replace(agent, report=report))
    message = said(replace(job, workers={**job.workers, 1: slow}).decide().status)
    assert message.endswith(
        "it computes longer; low clock of GPU-1 (serial number 165): it is too hot"
    )


def test_the_message_does_not_change_with_each_measurement() -> None:
    first, second = (a_training(1.0, 1.0, slow).decide().status for slow in (1.55, 1.6))
    assert said(first) == said(second)


def test_it_is_said_until_the_worker_is_clearly_faster() -> None:
    named = a_training(1.0, 1.0, 1.4).decide().status
    for slow, is_named in ((1.25, True), (1.16, True), (1.14, False)):
        later = a_training(1.0, 1.0, slow).with_state(named).decide(NOW + timedelta(minutes=5))
        assert (find(later.status, KIND) is not None) is is_named


def test_what_was_measured_in_another_world_does_not_count() -> None:
    old = replace(measured(1.9), world_number=0)
    few = replace(measured(1.9), windows=2)
    assert condition(a_training(1.0, 1.0, old), KIND) is None
    assert condition(a_training(1.0, 1.0, few), KIND) is None


def test_until_it_is_measured_again_what_was_said_stays() -> None:
    named = a_training(1.0, 1.0, 1.9).decide().status
    later = a_training(None, None, None).with_state(named).decide(NOW + timedelta(minutes=5))
    assert said(later.status) == said(named)


def test_a_suspended_job_says_nothing() -> None:
    named = a_training(1.0, 1.0, 1.9).decide().status
    held = a_training(1.0, 1.0, 1.9, suspend=True).with_state(named)
    assert find(held.decide(NOW + timedelta(minutes=5)).status, KIND) is None


def test_it_is_an_event_once() -> None:
    before = a_training(1.0, 1.0, 1.0)
    named = a_training(1.0, 1.0, 1.9)
    first = before.decide().status
    second = named.with_state(first).decide(NOW + timedelta(minutes=1)).status
    [event] = [one for one in announcements(first, second) if one.reason is Reason.SLOW_WORKER]
    assert event.is_warning
    assert event.message == said(second)
    third = named.with_state(second).decide(NOW + timedelta(minutes=2)).status
    assert Reason.SLOW_WORKER not in {one.reason for one in announcements(second, third)}


@pytest.mark.parametrize(
    ("microbatches", "own", "named"),
    [
        (3, (1.0, 1.0, 1.31), NAMED),
        (8, (1.5, 1.5, 1.0), None),  # three, three and two of them
        (8, (1.9, 1.9, 1.0), None),
        (8, (1.0, 1.99, 1.0), NAMED),
        (2, (1.0, 1.9, 0.1), None),  # one has none
    ],
)
def test_that_a_step_cannot_be_divided_evenly_is_allowed_for(
    microbatches: int, own: tuple[float, ...], named: tuple[str, str] | None
) -> None:
    told = Progress(1, 100, microbatches=microbatches)
    members = {n: a_member(n, measured(one), progress=told) for n, one in enumerate(own)}
    job = a_job(len(own)).training(*members)
    assert condition(replace(job, workers=members), KIND) == named
