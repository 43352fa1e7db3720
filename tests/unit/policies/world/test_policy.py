"""Who trains with whom: start, loss, failure, lateness, growth and notices."""

import pytest

from spotrun.api.field_types.text_values import Time
from spotrun.api.status import How, Restarts
from spotrun.policies.world.policy import again_seconds
from spotrun.state.actions import Action, Create, Remove
from spotrun.state.rank_order import along_the_ring
from spotrun.state.snapshot import Node
from spotrun.wire import Failure
from tests.support.jobs.builders import (
    JobBuilder,
    a_job,
    a_spot_node,
    a_worker,
    ago,
    later,
    told,
    world,
)

PAUSING = Restarts(failures=1, retry_at=Time.of(later(5)), last_generation=1)
BROKEN = Failure(1, 1, "boom")


def removed(actions: tuple[Action, ...]) -> list[int]:
    return [action.serial for action in actions if isinstance(action, Remove)]


# start ------------------------------------------------------------------------------------------


def test_a_world_forms_as_soon_as_all_are_ready() -> None:
    job = a_job(2).with_workers(0, 1, ready=True)
    assert told(job) == (1, "0-1", True, How.RESTART, None)


@pytest.mark.parametrize(
    ("ages", "members"), [((29.0, 29.0), None), ((30.0, 29.0), None), ((40.0, 30.0), "0-1")]
)
def test_the_smallest_world_waits_for_the_rest_of_its_gang(
    ages: tuple[float, ...], members: str | None
) -> None:
    job = a_job(3, min=2).with_worker(2, ready=False)
    for serial, age in enumerate(ages):
        job = job.with_worker(serial, ready=True, ready_for=age)
    new = world(job)
    assert (new and new.members) == members
    if members is None:
        assert again_seconds(job.view(), job.status) == 30.0 - min(ages)


def test_no_world_forms_in_the_pause_after_a_failure() -> None:
    job = a_job(1).with_worker(0, ready=True).with_status(restarts=PAUSING)
    assert world(job) is None
    assert job.decide().again_seconds == 5.0


def test_a_world_has_one_of_the_sizes_allowed() -> None:
    job = a_job(4, sizes=[2, 4]).with_workers(0, 1, 2, ready=True, ready_for=31)
    assert told(job) == (1, "0-1", True, How.RESTART, None)


def test_a_first_world_restores_the_acknowledged_checkpoint_and_spends_a_store() -> None:
    new = world(a_job(1).with_worker(0, ready=True).with_checkpoint(7))
    assert new is not None
    assert (new.restore, new.store, new.spent) == (
        "step-7.g1",
        "10.0.0.0:20000",
        ("10.0.0.0:20000",),
    )


# loss -------------------------------------------------------------------------------------------


def lost(job: JobBuilder, *serials: int, seen: float = 0.3) -> JobBuilder:
    for serial in serials:
        job = job.with_worker(serial, node=Node("n", gone=True))
    return job.with_facts(lost_seconds=dict.fromkeys(serials, seen))


def test_survivors_go_on_in_process() -> None:
    job = lost(a_job(4, min=2).training(0, 1, 2, 3), 0)
    assert told(job) == (2, "1-3", True, How.ABORT, "1-3")


def test_more_losses_are_waited_for() -> None:
    job = lost(a_job(4, min=2).training(0, 1, 2, 3, in_process=False), 0, seen=0.1)
    assert told(job) == (1, "0-3", True, How.RESTART, None)
    assert job.decide().again_seconds == pytest.approx(0.2)


def test_in_process_another_loss_is_hardly_waited_for() -> None:
    job = lost(a_job(4, min=2).training(0, 1, 2, 3), 0, seen=0.01)
    assert told(job) == (1, "0-3", True, How.RESTART, None)
    assert job.decide().again_seconds == pytest.approx(0.04)


def test_scripts_that_cannot_go_on_in_process_start_again() -> None:
    job = lost(a_job(3, min=2).training(0, 1, 2, in_process=False), 2)
    assert told(job) == (2, "0-1", True, How.RESTART, "0-1")


def test_over_nccl_a_boundary_is_gone_through_in_process_and_after_a_loss_all_start_again() -> None:
    job = a_job(3, min=1).training(0, 1, 2, needs_boundary=True)
    assert told(lost(job, 2)) == (2, "0-1", True, How.RESTART, "0-1")
    assert told(job.with_spec(2, max=3)) == (2, "0-1", True, How.BOUNDARY, "0-2")


def test_too_few_survivors_keep_the_state_and_go_on_with_the_replacement() -> None:
    job = lost(a_job(2, min=2).training(0, 1), 0)
    assert told(job) == (2, "", False, How.RESTART, "1")
    job = job.with_status(world=world(job)).without(0).with_worker(2, ready=True)
    assert told(job) == (3, "1-2", True, How.ABORT, "1")


def test_a_spare_that_is_ready_takes_the_place() -> None:
    job = lost(a_job(2, min=2).training(0, 1).with_worker(2, ready=True), 0)
    assert told(job) == (2, "1-2", True, How.ABORT, "1")


def test_a_newcomer_without_state_never_goes_on_alone() -> None:
    job = a_job(2).with_world("0-1", 2, how=How.BOUNDARY, trained="0")
    job = lost(job.with_worker(1, ready=True, arrived=1, progress=None), 0)
    job = job.with_worker(1, ready=True)
    assert told(job) == (3, "1", True, How.RESTART, None)


def test_a_new_leader_waits_to_hear_from_the_survivors() -> None:
    job = lost(a_job(3).training(0, 1).with_worker(1), 0).with_facts(leading_seconds=10.0)
    assert told(job) == (1, "0-1", True, How.RESTART, None)
    assert job.decide().again_seconds <= 50


@pytest.mark.parametrize(("led", "again"), [(8.0, 2.0), (12.0, 48.0)])
def test_a_new_leader_looks_again_when_who_has_not_come_had_time_to(
    led: float, again: float
) -> None:
    job = a_job(2).training(0).with_worker(1).with_world("0-1").with_facts(leading_seconds=led)
    assert job.decide().again_seconds == again


# failure ----------------------------------------------------------------------------------------


def test_the_others_go_on_without_a_process_that_failed() -> None:
    job = a_job(3, min=2).training(0, 1, 2).with_worker(1, ready=False, arrived=1, failed=BROKEN)
    assert told(job) == (2, "0,2", True, How.ABORT, "0,2")


def test_where_none_has_state_left_all_start_again_after_the_pause() -> None:
    job = a_job(2, min=2).training(0, 1, in_process=False, failed=BROKEN)
    job = job.with_status(restarts=PAUSING)
    assert told(job) == (1, "0-1", True, How.RESTART, None)
    after = job.with_status(restarts=PAUSING.model_copy(update={"retry_at": Time.of(ago(1))}))
    assert told(after) == (2, "0-1", True, How.RESTART, None)


# arrival ----------------------------------------------------------------------------------------


def test_who_is_late_twice_is_replaced() -> None:
    job = a_job(2, min=2).training(0, 1).with_worker(2, ready=True)
    job = job.with_world("0-1", 1, late="2,2", store="s:1")
    decision = job.decide()
    assert decision.status.next_serial == 3
    assert removed(decision.actions) == [2]


# growth and notices -----------------------------------------------------------------------------


@pytest.mark.parametrize(("formed", "joins"), [(1.9, False), (2.0, True)])
def test_who_was_left_out_has_time_to_say_that_it_has_not_let_go(
    formed: float, joins: bool
) -> None:
    """What it said before, that it could enter a world, may be that of a process that hangs."""
    job = a_job(2).with_workers(0, 1, ready=True, arrived=2, ready_for=99.0)
    job = job.with_world("0", 2, how=How.ABORT, trained="0", late="1", formed=formed)
    decision = job.with_worker(1, ready=True, arrived=1, ready_for=99.0).decide()
    assert decision.status.world is not None
    assert (decision.status.world.members == "0-1") is joins
    assert joins or decision.again_seconds == pytest.approx(0.1)


def test_growth_has_two_phases() -> None:
    job = a_job(3).training(0, 1).with_worker(2, ready=False)
    assert told(job) == (2, "0-2", False, How.BOUNDARY, "0-1")
    prepared = job.with_status(world=world(job))
    assert told(prepared) == (2, "0-2", False, How.BOUNDARY, "0-1")
    assert told(prepared.with_worker(2, ready=True)) == (2, "0-2", True, How.BOUNDARY, "0-1")


def test_nobody_waits_in_process_for_a_newcomer_that_would_have_to_start_first() -> None:
    waiting = a_job(3).training(0, 1).with_worker(2, ready=True, in_process=False)
    assert told(waiting) == (2, "0-2", False, How.BOUNDARY, "0-1")
    prepared = waiting.with_status(world=world(waiting))
    assert told(prepared) == (2, "0-2", False, How.BOUNDARY, "0-1")
    assert told(prepared.with_worker(2, ready=True)) == (2, "0-2", True, How.BOUNDARY, "0-1")


def test_where_all_start_again_a_newcomer_need_not_have_started() -> None:
    job = a_job(3).training(0, 1, in_process=False).with_worker(2, ready=True, in_process=False)
    assert told(job) == (2, "0-2", True, How.RESTART, "0-1")


def test_a_newcomer_that_failed_while_it_got_warm_is_given_another_world_after_a_pause() -> None:
    job = a_job(3).training(0, 1).with_worker(2, ready=False)
    prepared = job.with_status(world=world(job))
    failed = prepared.with_worker(2, ready=True, in_process=False, failed=Failure(2, 1, "boom"))
    assert told(failed) == (2, "0-2", False, How.BOUNDARY, "0-1")
    decision = failed.decide()
    again = failed.with_state(decision.status).decide(later(10)).status.world
    assert again is not None
    assert (again.generation, again.members, again.switch) == (3, "0-2", False)


def test_who_is_ready_waits_no_longer_for_others_though_another_world_was_prepared() -> None:
    job = a_job(4).training(0, 1).with_worker(2, ready=True, ready_for=299.0)
    job = job.with_worker(3, ready=False)
    job = job.with_world("0-3", 2, switch=False, how=How.BOUNDARY, trained="0-1", formed=20.0)
    assert told(job) == (2, "0-3", False, How.BOUNDARY, "0-1")
    assert again_seconds(job.view(), job.status) == 1.0
    after = job.with_worker(2, ready=True, ready_for=300.0)
    assert told(after) == (3, "0-2", True, How.BOUNDARY, "0-1")


def test_a_spare_that_is_not_warm_takes_no_place_in_process() -> None:
    job = lost(a_job(2).training(0, 1).with_worker(2, ready=True, in_process=False), 0)
    assert told(job) == (2, "1", True, How.ABORT, "1")


def test_whose_process_failed_takes_no_place_in_process_though_its_report_is_old() -> None:
    job = a_job(3).training(0, 1, 2).with_worker(2, ready=True, arrived=1, failed=BROKEN)
    assert told(job) == (2, "0-1", True, How.ABORT, "0-1")


def test_a_smaller_wish_is_followed_at_a_boundary() -> None:
    job = a_job(3).training(0, 1, 2).with_spec(2, max=3)
    assert told(job) == (2, "0-1", True, How.BOUNDARY, "0-2")


def test_nobody_leaves_under_notice_before_the_replacement_is_ready() -> None:
    job = a_job(2).training(0, 1).with_worker(1, ready=True, arrived=1, leaves_in=60)
    assert told(job) == (1, "0-1", True, How.RESTART, None)
    assert job.decide().status.next_serial == 3
    job = job.with_worker(2, ready=True)
    assert told(job) == (2, "0,2", True, How.BOUNDARY, "0-1")


def test_shortly_before_the_end_of_its_node_a_worker_is_left_out() -> None:
    job = a_job(2).training(0, 1).with_worker(1, ready=True, arrived=1, leaves_in=8)
    assert told(job) == (2, "0", True, How.BOUNDARY, "0-1")


def test_a_notice_that_is_taken_back_is_forgotten() -> None:
    job = a_job(2).training(0, 1).with_worker(2, ready=False)
    assert told(job) == (1, "0-1", True, How.RESTART, None)
    assert removed(job.decide().actions) == [2]


def test_a_world_never_mixes_templates() -> None:
    job = a_job(2, min=2).training(0, 1, template="old").with_worker(2, ready=True)
    assert told(job) == (1, "0-1", True, How.RESTART, None)
    assert told(job.with_worker(3, ready=True)) == (2, "2-3", True, How.RESTART, "0-1")


def test_what_is_prepared_gets_its_store_when_there_is_one() -> None:
    job = a_job(1).with_worker(0, ready=True, arrived=1).with_world("0", spent=("10.0.0.0:20000",))
    new = world(job)
    assert new is not None
    assert new.store is None
    new = world(job.with_worker(0, ready=True, arrived=1, store_port=20_001))
    assert new is not None
    assert (new.store, new.spent) == ("10.0.0.0:20001", ("10.0.0.0:20000", "10.0.0.0:20001"))


def test_nobody_trains_in_a_world_whose_workers_are_gone_for_a_suspension() -> None:
    job = a_job(1, suspend=True).training(0)
    ended = job.without(0)
    assert told(ended) == (2, "", False, How.RESTART, None)
    again = ended.with_status(world=world(ended))
    assert told(again) == (2, "", False, How.RESTART, None)


def test_ranks_go_by_safety_then_by_place() -> None:
    workers = [
        a_worker(0, node=a_spot_node("b", "z1")),
        a_worker(1, node=Node("c", zone="z2")),
        a_worker(2, node=a_spot_node("a", "z1")),
        a_worker(3, node=Node("d", zone="z1")),
        a_worker(4, node=a_spot_node("a", "z1")),
    ]
    assert [worker.serial for worker in along_the_ring(workers)] == [3, 1, 2, 4, 0]


def test_spot_begins_in_the_zone_where_on_demand_ends() -> None:
    workers = [
        a_worker(0, node=a_spot_node("n0", "a")),
        a_worker(1, node=a_spot_node("n1", "b")),
        a_worker(2, node=Node("n2", zone="b")),
        a_worker(3, node=Node("n3", zone="a")),
    ]
    zones = [worker.node and worker.node.zone for worker in along_the_ring(workers)]
    assert zones == ["a", "b", "b", "a"]


def test_a_pod_made_anew_under_the_number_of_one_with_the_state_has_none() -> None:
    job = a_job(2).with_workers(0, 1, ready=True).with_worker(0, node=Node("n", gone=True))
    job = job.with_world("0", 2, how=How.BOUNDARY, trained="0-1").with_facts(lost_seconds={0: 1.0})
    assert told(job) == (3, "1", True, How.RESTART, None)


def test_who_held_the_state_and_is_gone_is_forgotten_and_made_anew() -> None:
    job = a_job(2, min=2).with_worker(0).with_worker(1)
    job = job.with_world("", 2, switch=False, trained="1").without(1)
    decision = job.decide()
    assert told(job) == (2, "", False, How.RESTART, None)
    assert decision.actions == (Create(1),)
