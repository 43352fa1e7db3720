"""Jobs of which two workers make steps."""

from spotrun.wire import Progress
from tests.support.jobs.builders import JobBuilder, a_job


def stepping(*, in_process: bool = False) -> JobBuilder:
    """Return a job that makes steps with two workers: of a plain script, or under `Run`."""
    kind = {"in_process": in_process, "saves_on_order": in_process}
    job = a_job(2, min=1).training(0, 1, world_number=5, **kind)
    stepped = Progress(5, 7, step_seconds=0.1)
    for worker_id in (0, 1):
        job = job.with_worker(worker_id, ready=False, arrived=5, progress=stepped, **kind)
    return job
