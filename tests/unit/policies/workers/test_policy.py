from spotrun.api.names import Reason
from spotrun.state.actions import Create, Remove
from spotrun.state.snapshot import Node
from tests.support.jobs.builders import a_job


def test_numbers_are_given_out_once_and_workers_made_after() -> None:
    decision = a_job(2, min=2).decide()
    assert decision.status.next_worker_id == 2
    assert decision.actions == (Create(0), Create(1))
    again = a_job(2, min=2).with_worker(1).decide()
    assert (again.status.next_worker_id, again.actions) == (2, (Create(0),))


def test_a_silent_worker_is_replaced_and_fenced_by_its_uid() -> None:
    job = a_job(1).with_worker(0, ready=True, heard=9, node=Node("n", ready=False))
    decision = job.decide()
    why = "no sign of life from job-0"
    assert decision.actions == (Remove(0, "uid-0", Reason.NODE_LOST, why), Create(1, ("n",)))
    assert not decision.status.settled.size


def test_surplus_workers_go_the_least_useful_first() -> None:
    job = a_job(1, max=3).with_worker(0, ready=True).with_worker(1).with_worker(2, node=None)
    went = [a.worker_id for a in job.decide().actions if isinstance(a, Remove)]
    assert went == [2, 1]


def test_a_member_that_vanished_is_made_anew_only_when_no_world_counts_on_it() -> None:
    job = a_job(2, min=2).training(0, 1).without(1).with_facts(lost_seconds={1: 0.01})
    assert job.decide().actions == ()
    assert job.with_facts(lost_seconds={1: 0.3}).decide().actions == (Create(1),)


def test_a_gang_that_must_wait_gives_its_nodes_back_and_one_that_trains_does_not() -> None:
    waiting = a_job(1).with_worker(0).with_facts(may_hold_nodes=False).decide()
    assert [(type(a), getattr(a, "reason", None)) for a in waiting.actions] == [
        (Remove, Reason.WAITING_FOR_GANG)
    ]
    assert a_job(1).training(0).with_facts(may_hold_nodes=False).decide().actions == ()
