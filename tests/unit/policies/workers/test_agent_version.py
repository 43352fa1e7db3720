from dataclasses import replace

from spotrun.api.names import ConditionType
from tests.support.jobs.builders import a_job
from tests.support.jobs.decided import condition


def test_agents_that_are_too_old_are_named() -> None:
    job = a_job(2).training(0, 1)
    worker = job.workers[1]
    old = replace(job, workers={**job.workers, 1: replace(worker, speaks_old_wire=True)})
    kind = ConditionType.AGENTS_SUPPORTED
    assert condition(job, kind) is None
    assert condition(old, kind) == ("False", "AgentTooOld")
    mended = job.with_status(conditions=old.decide().status.conditions)
    assert condition(mended, kind) == ("True", "Training")
