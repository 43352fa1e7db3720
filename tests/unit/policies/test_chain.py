from dataclasses import replace

from tests.support.jobs.builders import a_job
from tests.support.jobs.stored_state import stored


def test_a_quiet_job_stays_quiet_and_its_status_is_valid() -> None:
    job = a_job(3, min=2).training(0, 1, 2)
    status = job.decide().status
    again = replace(job, status=stored(status)).decide()
    assert (again.status, again.actions) == (status, ())
