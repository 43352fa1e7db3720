from typing import Any

from spotrun.api.status import Entry
from spotrun.policies.world.stage_change import enter_stage, is_due
from spotrun.state.stored.training import StageState
from tests.support.jobs.builders import ON_CLAIM, JobBuilder, a_job, ago

STAGES: list[dict[str, Any]] = [{"name": "short", "untilStep": 100}, {"name": "long"}]


def changing(index: int = 1, **spec: int) -> JobBuilder:
    job = a_job(2, stages=STAGES, checkpoint=ON_CLAIM, **spec).training(0, 1).with_checkpoint(100)
    stage = StageState(STAGES[index]["name"], index, 100, ago(1))
    return job.with_status(stage=stage)


def test_it_is_due_while_the_world_is_one_of_the_stage_before() -> None:
    for index in (0, 1):
        job = changing(index)
        assert is_due(job.view(), job.status) is bool(index)
    assert not is_due(a_job(1).view(), a_job(1).status)


def test_all_who_are_there_start_again_from_the_checkpoint() -> None:
    job = changing()
    world = enter_stage(job.view(), job.status).world
    assert (world.members, world.entry, world.restore) == ((0, 1), Entry.RESTART, "step-100.g1")
    assert (world.stage, world.is_active, world.is_planned) == (1, True, True)


def test_where_too_few_are_there_the_next_ones_begin_the_stage() -> None:
    job = changing(min=2).without(1)
    world = enter_stage(job.view(), job.status).world
    assert (world.members, world.state_holders, world.stage, world.is_active) == ((), (), 1, False)
