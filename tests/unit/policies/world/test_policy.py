"""The world as a whole: its store, its end, and who holds the state."""

from spotrun.api.status import Entry
from spotrun.state.actions import Create
from spotrun.state.snapshot import Node
from tests.support.jobs.builders import a_job, decided_world, world


def test_what_is_prepared_gets_its_store_when_there_is_one() -> None:
    job = (
        a_job(1)
        .with_worker(0, ready=True, arrived=1)
        .with_world("0", used_stores=("10.0.0.0:20000",))
    )
    new = world(job)
    assert new.store is None
    new = world(job.with_worker(0, ready=True, arrived=1, store_port=20_001))
    assert (new.store, new.used_stores) == ("10.0.0.0:20001", ("10.0.0.0:20000", "10.0.0.0:20001"))


def test_nobody_trains_in_a_world_whose_workers_are_gone_for_a_suspension() -> None:
    job = a_job(1, suspend=True).training(0)
    ended = job.without(0)
    assert decided_world(ended) == (2, "", False, Entry.RESTART, None)
    again = ended.with_status(world=world(ended))
    assert decided_world(again) == (2, "", False, Entry.RESTART, None)


def test_a_pod_made_anew_under_the_number_of_one_with_the_state_has_none() -> None:
    job = a_job(2).with_workers(0, 1, ready=True).with_worker(0, node=Node("n", gone=True))
    job = job.with_world("0", 2, entry=Entry.BOUNDARY, state_holders="0-1").with_facts(
        lost_seconds={0: 1.0}
    )
    assert decided_world(job) == (3, "1", True, Entry.RESTART, None)


def test_who_held_the_state_and_is_gone_is_forgotten_and_made_anew() -> None:
    job = a_job(2, min=2).with_worker(0).with_worker(1)
    job = job.with_world("", 2, is_active=False, state_holders="1").without(1)
    decision = job.decide()
    assert decided_world(job) == (2, "", False, Entry.RESTART, None)
    assert decision.actions == (Create(1),)
