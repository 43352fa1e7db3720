from datetime import timedelta
from typing import Any

import pytest

from spotrun.agents.answers import Answers
from spotrun.agents.published import published
from spotrun.api.names import Phase, Reason
from spotrun.api.status import Entry
from spotrun.policies.lifecycle.suspension import CHECKPOINT_SECONDS
from spotrun.state.codec import read, write
from spotrun.state.job_state import JobState
from spotrun.state.stored.training import StageState
from spotrun.wire import Ending, Metric, Progress
from tests.support.jobs.builders import NOW, ON_CLAIM, JobBuilder, a_job, ago, an_end, later

STAGES: list[dict[str, Any]] = [
    {"name": "short", "untilStep": 100, "args": ["--length", "8"], "params": {"lr": "1e-3"}},
    {"name": "long", "stopWhen": {"metric": "loss", "noBetterReports": 2}},
    {"name": "last"},
]


def in_stage(
    index: int, *, world_number: int = 1, since_step: int = 0, **worker: Any
) -> JobBuilder:
    """Return a job of two workers that trains a stage."""
    stage = StageState(STAGES[index]["name"], index, since_step, ago(600))
    job = a_job(2, stages=STAGES, checkpoint=ON_CLAIM)
    job = job.training(0, 1, world_number=world_number, **worker).with_status(stage=stage)
    return job.with_world("0-1", world_number, store="10.0.0.0:1", stage=index)


def where(status: JobState) -> tuple[int, int, Entry, bool, int]:
    """Return the stage, and number, entry, and stage of the world."""
    assert status.stage is not None
    world = status.world
    return status.stage.index, world.number, world.entry, world.is_active, world.stage


def saved(step: int, world_number: int = 1) -> dict[str, Any]:
    progress = Progress(world_number, step)
    name = f"step-{step}.g{world_number}"
    return {"completed": True, "committed": name, "progress": progress}


def test_a_job_begins_with_its_first_stage() -> None:
    job = a_job(1, stages=STAGES, checkpoint=ON_CLAIM).with_worker(0, ready=True)
    assert where(job.decide().status) == (0, 1, Entry.RESTART, True, 0)


def test_the_next_stage_begins_from_the_checkpoint_of_the_last_one_in_the_same_pods() -> None:
    decision = in_stage(0, **saved(100)).decide()
    status = decision.status
    assert where(status) == (1, 2, Entry.RESTART, True, 1)
    assert status.stage == StageState("long", 1, since_step=100, since=NOW)
    assert (status.world.members, status.world.restore) == ((0, 1), "step-100.g1")
    assert status.world.is_planned
    assert status.phase is Phase.RUNNING
    told = [one.reason for one in decision.announcements if one.reason is Reason.STAGE_BEGUN]
    assert told == [Reason.STAGE_BEGUN]
    assert not any("delete" in str(action).lower() for action in decision.actions)


def test_a_stage_lasts_until_all_who_are_there_have_completed_it() -> None:
    job = in_stage(0, progress=Progress(1, 100)).with_worker(0, ready=True, arrived=1, **saved(100))
    assert where(job.decide().status) == (0, 1, Entry.RESTART, True, 0)


@pytest.mark.parametrize("index", [0, 1])
def test_a_report_of_the_last_world_ends_no_other_stage(index: int) -> None:
    # The world of the next stage is decided, and reports are still those of the one before.
    job = in_stage(index, **saved(100)).decide().status
    after = in_stage(index, **saved(100)).with_state(job).decide().status
    assert where(after) == (index + 1, 2, Entry.RESTART, True, index + 1)


def test_a_world_that_waits_for_its_turn_to_restart_does_not_skip_a_stage() -> None:
    job = in_stage(0, **saved(100)).with_facts(restart_seconds=5.0)
    status = job.decide().status
    assert where(status) == (1, 1, Entry.RESTART, True, 0)
    job = job.with_state(status)
    assert where(job.decide().status) == (1, 1, Entry.RESTART, True, 0)
    assert where(job.with_facts(restart_seconds=0.0).decide().status)[:2] == (1, 2)


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_node_lost_in_the_change_neither_skips_nor_repeats_a_stage(is_stored: bool) -> None:
    job = in_stage(0, **saved(100))
    if is_stored:
        job = job.with_state(job.decide().status)
    job = job.with_worker(1, node=None, **an_end(exit_code=137)).with_facts(lost_seconds={1: 9.0})
    status = job.decide().status
    assert status.stage == StageState("long", 1, since_step=100, since=NOW)
    assert (status.world.stage, status.world.restore) == (1, "step-100.g1")
    assert status.world.entry is Entry.RESTART


def test_where_too_few_are_left_for_the_next_stage_nobody_holds_the_state_of_the_last() -> None:
    job = in_stage(0, **saved(100)).with_spec(2, min=2, stages=STAGES, checkpoint=ON_CLAIM)
    job = job.without(1).with_facts(lost_seconds={1: 9.0})
    status = job.decide().status
    assert (where(status)[0], status.world.members, status.world.state_holders) == (1, (), ())


def test_a_loss_before_the_end_goes_on_in_the_stage() -> None:
    job = in_stage(1, world_number=3).with_checkpoint(150)
    job = job.without(1).with_facts(lost_seconds={1: 9.0})
    assert where(job.decide().status) == (1, 4, Entry.ABORT, True, 1)


def losses(*values: tuple[int, float]) -> JobState:
    job = in_stage(1, since_step=100).with_status(metrics=(Metric("loss", 0.1, 100),))
    job = job.with_state(read(write(job.decide().status)))  # before it reports anything new
    for step, loss in values:
        progress = Progress(1, step, metrics=(Metric("loss", loss, step),))
        status = job.with_workers(0, 1, ready=True, arrived=1, progress=progress).decide().status
        job = job.with_state(read(write(status)))
    return job.status


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        # 0.1 was of the stage before, with other data: it is no value to be better than
        ([(110, 0.9), (120, 0.95)], False),
        ([(110, 0.9), (120, 0.95), (130, 0.9)], True),
        ([(110, 0.9), (120, 0.95), (120, 0.97), (115, 0.99)], False),
        ([(110, 0.9), (120, 0.95), (130, 0.8)], False),
    ],
)
def test_a_plateau_ends_a_stage_and_survives_restarts_of_the_operator(
    values: list[tuple[int, float]], ends: bool
) -> None:
    stage = losses(*values).stage
    assert stage is not None
    assert (stage.ends_since is not None) is ends


def test_the_trainer_is_told_to_end_the_stage_that_it_is_in() -> None:
    def told(job: JobBuilder) -> int:
        snapshot = job.snapshot()
        return Answers(published(snapshot, job.status), b"key").answer(0).orders.stop

    assert told(in_stage(1)) == 1  # of place 1, which goes on: that of place 0 has ended
    assert told(in_stage(1).with_state(losses((110, 0.9), (120, 1.0), (130, 1.0)))) == 2
    assert told(in_stage(0)) == 0


def test_workers_are_told_the_values_of_their_worlds_stage() -> None:
    job = in_stage(0)
    world = Answers(published(job.snapshot(), job.status), b"key").answer(0).world
    assert world is not None
    assert world.stage is not None
    assert (world.stage.name, world.stage.args, world.stage.params) == (
        "short",
        ("--length", "8"),
        {"lr": 0.001},
    )
    assert (world.stage.until_step, world.stage.is_last) == (100, False)


def test_the_last_stage_ends_the_job() -> None:
    status = in_stage(2, **saved(300)).decide().status
    assert (status.phase, status.reason) == (Phase.SUCCEEDED, Reason.COMPLETED.value)


def test_a_last_stage_that_a_metric_ends_says_so() -> None:
    last = in_stage(1).with_spec(2, stages=STAGES[:2], checkpoint=ON_CLAIM)
    stage = losses((110, 0.9), (120, 1.0), (130, 1.0)).stage
    status = last.with_workers(0, 1, ready=True, arrived=1, **saved(131)).with_status(stage=stage)
    ended = status.decide().status
    assert (ended.phase, ended.reason) == (Phase.SUCCEEDED, Reason.NO_IMPROVEMENT.value)


def test_a_worker_that_ended_well_before_counts_for_no_later_stage() -> None:
    job = in_stage(1, world_number=2)
    job = job.with_worker(7, **an_end(Ending.COMPLETED))
    assert where(job.decide().status)[0] == 1


def plain(index: int, step: int, **worker: Any) -> JobBuilder:
    """Return a job whose script knows no orders, or only those to save."""
    job = in_stage(index, in_process=False, progress=Progress(1, step), **worker)
    return job.with_checkpoint(90, seconds_ago=60)


def test_a_script_that_knows_no_orders_is_started_again_once_the_step_is_seen() -> None:
    job = plain(0, 104, saves_on_order=False)
    status = job.decide().status
    assert status.stage is not None
    assert (status.stage.index, status.stage.ends_since) == (0, NOW)
    status = job.with_state(status).decide(later(1)).status
    assert where(status) == (1, 2, Entry.RESTART, True, 1)


def test_a_loop_that_saves_on_order_saves_before_its_stage_ends() -> None:
    job = plain(0, 104, saves_on_order=True)
    status = job.decide().status
    assert (status.orders.checkpoint, where(status)[0]) == (1, 0)
    job = job.with_state(status)
    assert where(job.decide(later(2 * CHECKPOINT_SECONDS)).status)[0] == 0  # nothing newer is saved
    job = job.with_workers(0, 1, ready=True, arrived=1, in_process=False, committed="step-106.g1")
    later_status = job.decide(later(5)).status
    assert later_status.stage == StageState("long", 1, 106, NOW + timedelta(seconds=5))


def test_all_of_a_stage_is_stored() -> None:
    status = losses((110, 0.9), (120, 1.0), (130, 1.0))
    assert read(write(status)) == status


def test_without_stages_nothing_is_kept_of_them() -> None:
    status = in_stage(1).with_spec(2).decide().status
    assert status.stage is None


def test_the_steps_of_all_stages_are_those_of_the_last() -> None:
    stages = [STAGES[0], {"name": "last", "untilStep": 400}]
    progress = Progress(1, 50, total=100)
    job = a_job(1, stages=stages, checkpoint=ON_CLAIM).training(0, progress=progress)
    assert job.decide().status.progress.total_steps == 400
    job = a_job(1, stages=STAGES, checkpoint=ON_CLAIM).training(0, progress=progress)
    assert job.decide().status.progress.total_steps is None
