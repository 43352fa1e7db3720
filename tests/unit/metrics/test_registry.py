from collections.abc import Iterable
from dataclasses import replace

import pytest
from prometheus_client import generate_latest

from spotrun.agents.answers import Published
from spotrun.api.names import Phase
from spotrun.kube.errors import Forbidden
from spotrun.kube.workqueue.queue import WorkQueue
from spotrun.metrics.registry import Meter
from spotrun.state.stored.training import Progress
from spotrun.state.stored.workers import Allowed, Interruptions, WorkerCounts
from tests.support.jobs.published_jobs import job, world


def series(jobs: Iterable[Published], *, leads: bool = True, most: int = 100) -> dict[str, float]:
    return read(Meter(lambda: jobs, lambda: leads, most_jobs=most))


def read(meter: Meter) -> dict[str, float]:
    lines = generate_latest(meter.registry).decode().splitlines()
    parts = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in parts}


def is_of_here(name: str) -> bool:
    """Whether a series is made here: what is read of progress and money is tested beside this."""
    elsewhere = ("step", "redone", "checkpoint", "samples", "condition", "placed", "unpriced")
    beginnings = tuple(f"spotrun_trainingjob_{word}" for word in elsewhere)
    return 'name="job"' in name and not name.startswith(beginnings)


def full() -> Published:
    published = job(world("0-5", world_number=3))
    status = replace(
        published.status,
        workers=WorkerCounts(running=6, spot=4, allowed=Allowed(size=8, reason="Replicas")),
        progress=Progress(step=420, total_steps=1000),
        interruptions=Interruptions(count=2),
    )
    return Published(published.namespace, published.name, published.uid, status, {}, 1)


def test_a_jobs_series_come_from_its_status() -> None:
    found = series([full()])

    mine = {name: value for name, value in found.items() if is_of_here(name)}
    assert mine == {
        'spotrun_trainingjob_info{name="job",namespace="team",phase="Running"}': 1,
        'spotrun_trainingjob_workers{name="job",namespace="team",state="desired"}': 8,
        'spotrun_trainingjob_workers{name="job",namespace="team",state="ready"}': 6,
        'spotrun_trainingjob_workers{name="job",namespace="team",state="spot"}': 4,
        'spotrun_trainingjob_progress_ratio{name="job",namespace="team"}': 0.42,
        'spotrun_trainingjob_world_number{name="job",namespace="team"}': 3,
        'spotrun_trainingjob_interruptions_total{name="job",namespace="team"}': 2,
        'spotrun_trainingjob_failures_total{name="job",namespace="team"}': 0,
    }


def test_a_job_that_has_no_workers_yet_is_seen_to_have_none() -> None:
    found = series([job()])

    states = {
        name.split('"')[-2]: value
        for name, value in found.items()
        if name.startswith("spotrun_trainingjob_workers")
    }
    assert states == {"desired": 0, "ready": 0, "spot": 0}


def test_a_standby_says_nothing_of_jobs() -> None:
    found = series([full()], leads=False)

    assert not any(name.startswith("spotrun_trainingjob_info") for name in found)
    assert not any(name.startswith("spotrun_trainingjobs") for name in found)
    assert found["spotrun_leader"] == 0


def test_series_are_bounded_and_finished_jobs_are_left_out_first() -> None:
    jobs = [job(name=f"job-{n}", phase=Phase.SUCCEEDED) for n in range(5)]
    jobs += [job(name=f"job-{n}", phase=Phase.RUNNING) for n in range(5, 8)]

    found = series(jobs, most=4)

    named = sorted(name for name in found if name.startswith("spotrun_trainingjob_info"))
    assert [name.split('"')[1] for name in named] == ["job-0", "job-5", "job-6", "job-7"]
    assert found["spotrun_trainingjobs_without_series"] == 4
    assert found['spotrun_trainingjobs{phase="Succeeded"}'] == 5
    assert found['spotrun_trainingjobs{phase="Running"}'] == 3


def test_requests_are_counted_by_kind_and_answer() -> None:
    meter = Meter(lambda: (), lambda: True)

    meter.count_request("world", 200)
    meter.count_request("world", 200)

    text = generate_latest(meter.registry).decode()
    assert 'spotrun_agent_requests_total{status="200",what="world"} 2.0' in text


def test_work_that_fails_is_counted_by_what_went_wrong_and_measured_all_the_same() -> None:
    meter = Meter(lambda: (), lambda: True)

    for _ in range(2):
        with pytest.raises(Forbidden), meter.reconciling():
            raise Forbidden("no")
    with meter.reconciling():
        pass

    text = generate_latest(meter.registry).decode()
    assert 'spotrun_trainingjob_reconcile_errors_total{error="Forbidden"} 2.0' in text
    assert "spotrun_trainingjob_reconcile_duration_seconds_count 3.0" in text


@pytest.mark.parametrize(("leads", "shown"), [(True, 2.0), (False, None)])
def test_queues_are_shown_where_somebody_works_on_them(leads: bool, shown: float | None) -> None:
    now = [100.0]
    queue: WorkQueue[str] = WorkQueue(clock=lambda: now[0])
    for key in ("a", "b"):
        queue.add(key)
    now[0] += 30
    meter = Meter(lambda: (), lambda: leads, {"trainingjobs": queue})

    found = read(meter)

    assert found.get('spotrun_queue_keys{queue="trainingjobs"}') == shown
    oldest = found.get('spotrun_queue_oldest_seconds{queue="trainingjobs"}')
    assert oldest == (30.0 if leads else None)
