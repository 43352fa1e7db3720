import pytest

from spotrun.api.names import Phase
from spotrun.state.snapshot import Refusal
from spotrun.wire import Failure, Progress
from tests.support.jobs.builders import JobBuilder, a_job, later
from tests.support.jobs.decided import phase


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (a_job(1), (Phase.PENDING, "WaitingForWorkers")),
        (a_job(1).with_worker(0), (Phase.STARTING, "WaitingForWorkers")),
        (a_job(1).with_worker(0, node=None), (Phase.PENDING, "WaitingForWorkers")),
        (
            a_job(1).with_worker(0, node=None, unschedulable="no room"),
            (Phase.PENDING, "WaitingForCapacity"),
        ),
        (a_job(1).training(0), (Phase.RUNNING, "Training")),
        (
            a_job(1).with_facts(refusal=Refusal("Forbidden", "no")),
            (Phase.PENDING, "TemplateRefused"),
        ),
        (
            a_job(1).with_facts(refusal=Refusal("NameTaken", "pod job-0 is somebody else's")),
            (Phase.PENDING, "NameTaken"),
        ),
        (a_job(1).with_facts(may_hold_nodes=False), (Phase.PENDING, "WaitingForGang")),
        (a_job(2).with_facts(volume_is_shared=False), (Phase.PENDING, "VolumeNotShared")),
        (
            a_job(1).with_status(phase=Phase.RUNNING).with_worker(0),
            (Phase.RECOVERING, "WaitingForWorkers"),
        ),
    ],
)
def test_the_phase_and_its_reason(job: JobBuilder, expected: tuple[Phase, str]) -> None:
    assert phase(job) == expected


BOOM = Failure(1, 1, "rank 0 ended with exit code 1: ValueError: no")


def a_crash() -> JobBuilder:
    job = a_job(1).training(0, in_process=False)
    return job.with_worker(0, ready=True, arrived=1, in_process=False, failed=BOOM)


def test_while_a_script_is_not_running_it_is_not_said_to_train() -> None:
    status = a_crash().decide().status
    assert (status.phase, status.reason) == (Phase.RECOVERING, "ExitCode")
    assert status.message == (
        "after ExitCode: 1 of 3 restarts, the next try at 2026-03-02T12:00:10Z; "
        "rank 0 ended with exit code 1: ValueError: no"
    )


def test_after_a_failure_it_is_said_to_train_again_once_a_step_is_seen() -> None:
    waits = a_crash()
    waits = waits.with_state(waits.decide().status)
    again = waits.with_state(waits.decide(later(11)).status)
    runs = again.with_worker(0, ready=False, arrived=2, in_process=False, progress=Progress(2, 0))
    status = runs.decide(later(12)).status
    assert (status.phase, status.message) == (
        Phase.RUNNING,
        "1 workers run after ExitCode (1 of 3 restarts), and no step is seen yet",
    )
    stepped = Progress(2, 3, step_seconds=1.0)
    runs = again.with_worker(0, ready=False, arrived=2, in_process=False, progress=stepped)
    assert runs.decide(later(12)).status.message == "1 workers train"


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (599, "1 workers run after ExitCode (1 of 3 restarts), and no step is seen yet"),
        (601, "1 workers train"),
    ],
)
def test_a_script_that_reports_no_steps_is_said_to_train_after_a_while(
    seconds: float, message: str
) -> None:
    waits = a_crash()
    waits = waits.with_state(waits.decide().status)
    again = waits.with_state(waits.decide(later(11)).status)
    runs = again.with_worker(0, ready=False, arrived=2, in_process=False, progress=Progress(2, 0))
    status = runs.decide(later(11 + seconds)).status
    assert (status.phase, status.message) == (Phase.RUNNING, message)


@pytest.mark.parametrize(
    ("least", "failures", "expected"),
    [
        (1, 1, Phase.RUNNING),
        (2, 1, Phase.RUNNING),
        (3, 1, Phase.RECOVERING),
        (1, 2, Phase.RUNNING),
        (2, 2, Phase.RECOVERING),
        (1, 3, Phase.RECOVERING),
    ],
)
def test_crashes_do_not_leave_running_as_long_as_enough_have_not_failed(
    least: int, failures: int, expected: Phase
) -> None:
    job = a_job(3, min=least).training(0, 1, 2, in_process=False)
    for worker_id in range(failures):
        job = job.with_worker(worker_id, ready=True, arrived=1, in_process=False, failed=BOOM)
    status = job.decide().status
    assert (status.phase, status.reason) == (expected, "ExitCode")
    assert "the next try at 2026-03-02T12:00:10Z" in (status.message or "")
