from spotrun.api.names import ConditionType
from spotrun.state.snapshot import Node
from tests.support.jobs.builders import a_job
from tests.support.jobs.decided import condition


def test_interruptions_are_counted_in_the_write_that_settles_them() -> None:
    job = a_job(1).with_worker(0, node=Node("n", gone=True))
    status = job.decide().status
    assert (status.interruptions.count, str(status.settled)) == (1, "0")
    again = job.with_state(status).decide().status
    assert again.interruptions == status.interruptions
    assert condition(job, ConditionType.INTERRUPTED) == ("True", "NodeLost")
    back = job.with_state(status).training(1)
    assert condition(back, ConditionType.INTERRUPTED) == ("False", "Training")
