"""Jobs whose workers tell nothing of their steps, and whose size is to be found."""

from dataclasses import replace
from typing import Any

from spotrun.state.snapshot import Worker
from spotrun.wire import Progress
from tests.support.jobs.builders import JobBuilder, a_job, a_worker


def a_mute_worker(worker_id: int, *, progress: Progress | None = None, **worker: Any) -> Worker:
    """Return a worker whose script has told nothing, and is started again in each world."""
    made = a_worker(worker_id, ready=True, **{"arrived": 1, "in_process": False, **worker})
    assert made.agent is not None
    report = replace(made.agent.report, progress=progress)
    return replace(made, agent=replace(made.agent, report=report))


def a_mute_job(**spec: Any) -> JobBuilder:
    job = a_job(2, **{"max": 8, **spec}).training(0, 1)
    return replace(job, workers={worker_id: a_mute_worker(worker_id) for worker_id in (0, 1)})
