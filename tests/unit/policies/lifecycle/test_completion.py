from spotrun.api.names import ConditionType, Phase
from spotrun.policies.lifecycle.completion import NO_STEP_SEEN
from spotrun.wire import Progress
from tests.support.jobs.builders import ON_CLAIM, a_job
from tests.support.jobs.decided import condition, phase


def test_any_member_may_say_that_the_training_is_complete() -> None:
    job = a_job(2).training(0, 1).with_worker(1, ready=True, arrived=1, completed=True)
    assert phase(job) == (Phase.SUCCEEDED, "Completed")
    assert condition(job, ConditionType.COMPLETE) == ("True", "Completed")
    assert job.decide().actions == ()


def test_it_is_also_complete_while_another_world_is_prepared() -> None:
    job = a_job(2).training(0).with_worker(0, ready=True, arrived=1, completed=True)
    job = job.with_worker(1, ready=False)
    job = job.with_world("0-1", 2, is_active=False, state_holders="0", training_number=1)
    assert phase(job)[0] is Phase.SUCCEEDED


def test_a_worker_of_an_older_world_says_nothing_about_this_one() -> None:
    job = a_job(1).training(0, world_number=2).with_worker(0, ready=True, arrived=1, completed=True)
    assert phase(job)[0] is Phase.RUNNING


def test_a_script_that_ends_well_without_a_step_is_not_said_to_be_trained() -> None:
    job = a_job(1, checkpoint=ON_CLAIM).training(0, in_process=False)
    done = {"ready": False, "arrived": 1, "in_process": False, "completed": True}
    nothing = job.with_worker(0, progress=Progress(1, 0), **done).decide().status
    assert (nothing.phase, nothing.message) == (Phase.SUCCEEDED, NO_STEP_SEEN)
    stepped = job.with_worker(0, progress=Progress(1, 7), **done).decide().status
    assert stepped.message is not None
    assert stepped.message.startswith("the training is complete; no checkpoint was reported")
