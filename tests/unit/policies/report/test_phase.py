import pytest

from spotrun.api.names import Phase
from spotrun.state.snapshot import Refusal
from tests.support.jobs.builders import JobBuilder, a_job
from tests.support.jobs.decided import phase


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (a_job(1), (Phase.PENDING, "WaitingForCapacity")),
        (a_job(1).with_worker(0), (Phase.STARTING, "WaitingForWorkers")),
        (a_job(1).with_worker(0, node=None), (Phase.PENDING, "WaitingForCapacity")),
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
