"""Mode Auto through the whole decision: what is stored, what is written, and who else is heard."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from spotrun.api.names import ScalingReason
from spotrun.state.actions import Decision, Resize
from spotrun.state.snapshot import Agent, Reading
from spotrun.state.stored.failures import NO_RESTARTS, Restarts, TriedSizes
from spotrun.state.stored.scaling import NO_SCALING, ScalingState
from spotrun.wire import Progress, Utilization
from tests.support.jobs.builders import (
    NOW,
    TEMPLATE,
    JobBuilder,
    a_job,
    a_worker,
    ago,
    later,
)

AUTO: dict[str, Any] = {"min": 1, "max": 8}
AT_ONCE = {"scaling": {"scaleUpAfter": "0s", "scaleDownAfter": "0s"}}


def a_reading(size: int, *, used: float = 1.0, seconds: float | None = None) -> Reading:
    """Of a job whose work divides evenly, 64 samples a step; eight seconds of work in all."""
    return Reading(
        world_number=1,
        windows=3,
        step_seconds=8.0 / size if seconds is None else seconds,
        samples_per_step=64.0,
        compute=used,
        data=1 - used,
        communicate=0.0,
        utilization=Utilization(gpu=used, cpu=used, memory=0.2),
    )


def trained(job: JobBuilder, size: int, **reading: Any) -> JobBuilder:
    """With a world of that size, of which everybody has told enough."""
    job = job.training(*range(size))
    for worker_id in range(size):
        worker = a_worker(worker_id, ready=True, arrived=1, progress=Progress(1, 100, 100_000))
        assert worker.agent is not None
        agent = replace(worker.agent, reading=a_reading(size, **reading))
        job = replace(job, workers={**job.workers, worker_id: replace(worker, agent=agent)})
    return job


def decided(job: JobBuilder, now: datetime = NOW) -> tuple[JobBuilder, Decision]:
    """The job after a decision, and that decision."""
    decision = job.decide(now)
    return replace(job, status=decision.status), decision


def resizes(decision: Decision) -> list[int]:
    return [action.replicas for action in decision.actions if isinstance(action, Resize)]


def scaling(job: JobBuilder) -> ScalingState:
    return job.status.scaling


def test_a_busy_job_grows_and_says_why_with_numbers() -> None:
    job, decision = decided(trained(a_job(2, **AUTO, **AT_ONCE), 2))
    assert resizes(decision) == [4]
    assert (scaling(job).size, scaling(job).replaces) == (4, 2)
    made = job.status.decisions[-1]
    assert made.what == "Grow"
    assert made.why == (
        "2 -> 4 workers: CPU 100% of a target of 70%; 4 workers would bring 1.00 of what they add"
    )
    assert made.numbers is not None
    assert {"reason", "workers", "utilization", "efficiency", "samplesPerSecond"} <= set(
        made.numbers
    )
    [reported] = [one for one in decision.announcements if one.reason in set(ScalingReason)]
    assert (reported.reason, reported.message) == (ScalingReason.UTILIZATION_HIGH, made.why)


def test_a_write_that_was_not_made_is_made_by_the_next_operator() -> None:
    job, _ = decided(trained(a_job(2, **AUTO, **AT_ONCE), 2))
    again, decision = decided(job, later(30))
    assert resizes(decision) == [4]
    assert again.status.decisions == job.status.decisions


def test_what_is_written_is_written_once() -> None:
    job, _ = decided(trained(a_job(2, **AUTO, **AT_ONCE), 2))
    job, decision = decided(job.with_spec(4, **AUTO, **AT_ONCE), later(30))
    assert resizes(decision) == []
    assert (scaling(job).size, scaling(job).replaces) == (4, None)


def test_whoever_else_writes_a_size_is_heard() -> None:
    job, _ = decided(trained(a_job(2, **AUTO, **AT_ONCE), 2))
    job, decision = decided(job.with_spec(3, **AUTO, **AT_ONCE), later(30))
    assert resizes(decision) == []
    assert (scaling(job).size, scaling(job).replaces) == (3, None)
    assert scaling(job).reason == ScalingReason.REPLICAS_SET


def test_the_size_that_a_script_keeps_to_is_written_by_nobody() -> None:
    """What somebody does write meanwhile is heard once the job may have any size again."""
    job, _ = decided(trained(a_job(2, **AUTO, **AT_ONCE), 2))
    sizes = TriedSizes((2,), suspect=4, error="no", held=2, template=TEMPLATE)
    held = job.with_status(restarts=Restarts(sizes=sizes))
    held, decision = decided(held, later(60))
    assert (resizes(decision), decision.announcements) == ([], ())
    assert (scaling(held).size, scaling(held).decisions) == (4, scaling(job).decisions)
    held, decision = decided(held.with_spec(5, **AUTO, **AT_ONCE), later(90))
    assert (scaling(held).size, decision.announcements) == (4, ())
    free = held.with_status(restarts=NO_RESTARTS)
    assert scaling(decided(free, later(120))[0]).reason == ScalingReason.REPLICAS_SET


def test_the_same_answer_is_no_news() -> None:
    """A look every minute at a job that is as it should be writes nothing."""
    job, decision = decided(trained(a_job(2, **AUTO), 2, used=0.7))
    assert [one.what for one in job.status.decisions] == ["Stay"]
    for seconds in (60, 120, 180):
        after, decision = decided(job, later(seconds))
        assert (after.status.scaling, after.status.decisions) == (
            job.status.scaling,
            job.status.decisions,
        )
        assert decision.announcements == ()


def test_the_time_for_which_a_size_is_justified_is_stored_and_waited_for() -> None:
    job, decision = decided(trained(a_job(2, **AUTO), 2))
    assert scaling(job).more_since == NOW
    assert decision.wake_after_seconds <= 120
    assert resizes(decision) == []
    job, decision = decided(job, later(120))
    assert resizes(decision) == [4]


@pytest.mark.parametrize("spec", [{"scaling": {"mode": "Manual"}}, {"min": 2, "max": 2}])
def test_in_mode_manual_nothing_is_decided(spec: dict[str, Any]) -> None:
    job, decision = decided(trained(a_job(2, **{**AUTO, **spec}), 2))
    assert (job.status.scaling, resizes(decision)) == (NO_SCALING, [])


def test_a_suspended_job_keeps_its_size() -> None:
    job, decision = decided(trained(a_job(2, **AUTO, **AT_ONCE, suspend=True), 2))
    assert (job.status.scaling, resizes(decision)) == (NO_SCALING, [])


def test_scripts_that_tell_nothing_of_their_steps_keep_their_size() -> None:
    job, decision = decided(a_job(2, **AUTO, **AT_ONCE).training(0, 1))
    assert (scaling(job), resizes(decision)) == (ScalingState(size=2), [])


def mute(job: JobBuilder, size: int, used: float | None, **facts: Any) -> JobBuilder:
    """With a world of that size, whose script does not train through `Run`."""
    job = job.training(*range(size)).with_facts(is_mute=True, **facts)
    reported = Utilization(cpu=used) if used is not None else None
    return replace(job, workers={n: replace(w, used=reported) for n, w in job.workers.items()})


def test_of_scripts_that_tell_nothing_what_their_pods_use_decides() -> None:
    job = a_job(2, **AUTO, **AT_ONCE, checkpoint={"uri": "s3://your-bucket/job"})
    job, decision = decided(mute(job, 2, 1.0))
    assert resizes(decision) == [3]
    made = job.status.decisions[-1]
    assert made.what == "Grow"
    assert made.why == (
        "2 -> 3 workers: CPU 100% of a target of 70%; it asks for 3, "
        "and no worker reports steps, by which that could be judged"
    )


def test_that_nobody_knows_what_is_used_is_said_once() -> None:
    job = mute(a_job(2, **AUTO), 2, None, use_unknown="this cluster serves no metrics.k8s.io")
    job, decision = decided(job)
    assert scaling(job).reason == ScalingReason.NO_UTILIZATION
    assert job.status.decisions[-1].why == ("2 workers: this cluster serves no metrics.k8s.io")
    after, decision = decided(job, later(60))
    assert (after.status.scaling, decision.announcements) == (job.status.scaling, ())
    assert after.status.decisions == job.status.decisions


def test_pending_workers_are_no_utilization() -> None:
    """Four are wanted and two train: what these two use says nothing about four."""
    job = trained(a_job(4, **AUTO, **AT_ONCE), 2, used=0.2).with_workers(2, 3, node=None)
    job, decision = decided(job)
    assert (scaling(job).reason, resizes(decision)) == (None, [])


def test_what_the_budget_allows_per_hour_takes_nothing_from_what_is_asked_for() -> None:
    """Four are asked for, one may train; that is no reason to ask for fewer."""
    budget = {"budget": {"maxUsdPerHour": "2", "unpriced": "Allow"}}
    job, decision = decided(trained(a_job(4, **AUTO, **AT_ONCE, **budget), 1))
    assert resizes(decision) == []
    assert scaling(job).size == 4
    assert scaling(job).reason == ScalingReason.BUDGET_LIMIT


def test_where_capacity_is_lacking_status_says_what_can_be_had() -> None:
    waiting = {"node": None, "unschedulable": "0/2 nodes are available"}
    job = trained(a_job(4, **AUTO), 2).with_workers(2, 3, **waiting)
    job, decision = decided(job)
    assert job.status.workers.allowed is not None
    allowed = job.status.workers.allowed
    assert (allowed.size, allowed.reason) == (2, "WaitingForCapacity")
    job, decision = decided(job, later(1))
    assert (scaling(job).reason, resizes(decision)) == (ScalingReason.NO_CAPACITY, [])


def test_one_slow_node_says_nothing_about_the_size() -> None:
    """It makes everybody's step a second longer; the others wait for it."""
    job = trained(a_job(3, **AUTO), 3, used=0.9, seconds=2.0)
    slow = job.workers[2].agent
    assert isinstance(slow, Agent)
    reading = replace(a_reading(3, seconds=2.0), compute=1.0, data=0.0)
    workers = {**job.workers, 2: replace(job.workers[2], agent=replace(slow, reading=reading))}
    job, _ = decided(replace(job, workers=workers))
    [measured] = scaling(job).measured
    assert float(measured.step_seconds) == pytest.approx(1.8)


def test_memory_of_what_was_measured_expires() -> None:
    job, _ = decided(trained(a_job(2, **AUTO), 2, used=0.7))
    [measured] = scaling(job).measured
    long_ago = replace(measured, workers=5, time=ago(7 * 3600))
    old = replace(scaling(job), measured=(long_ago,))
    job, _ = decided(job.with_status(scaling=old), later(60))
    assert [one.workers for one in scaling(job).measured] == [2]
