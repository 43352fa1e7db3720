"""Jobs whose workers tell nothing of their steps, and whose size is to be found."""

from dataclasses import replace
from typing import Any

from spotrun.state.snapshot import Worker
from spotrun.wire import Progress
from tests.support.jobs.builders import JobBuilder, a_job, a_worker


def a_mute_worker(serial: int, *, progress: Progress | None = None, **worker: Any) -> Worker:
    """Return a worker whose script has told nothing, and is started again in each world."""
    made = a_worker(serial, ready=True, **{"arrived": 1, "in_process": False, **worker})
    assert made.agent is not None
    report = replace(made.agent.report, progress=progress)
    return replace(made, agent=replace(made.agent, report=report))


def a_mute_job(**spec: Any) -> JobBuilder:
    job = a_job(2, **{"max": 8, **spec}).training(0, 1)
    return replace(job, workers={serial: a_mute_worker(serial) for serial in (0, 1)})
