from typing import Any

from spotrun.api.names import Phase, SuspendedBy
from spotrun.policies.report.write_rate import refresh_seconds
from spotrun.state.actions import Remove
from spotrun.state.job_state import NO_ORDERS, Orders
from spotrun.state.stored.training import AcknowledgedCheckpoint
from tests.support.jobs.builders import NOW, ON_CLAIM, a_job, later
from tests.support.jobs.decided import phase


def test_a_suspension_waits_for_the_checkpoint_it_ordered() -> None:
    job = a_job(1, suspend=True, checkpoint=ON_CLAIM).training(0)
    decision = job.decide()
    status = decision.status
    assert status.suspended_by == (SuspendedBy.USER,)
    assert status.orders == Orders(1, NOW)
    assert (decision.actions, decision.wake_after_seconds) == ((), refresh_seconds(job.snapshot()))
    waiting = job.with_state(status)
    assert waiting.decide(later(109)).actions == ()
    assert len(waiting.decide(later(110)).actions) == 1
    saved = waiting.with_worker(0, ready=True, arrived=1, committed="step-9.g1").decide(later(3))
    assert saved.status.checkpoint == AcknowledgedCheckpoint("step-9.g1", 9, later(3))
    assert [type(action) for action in saved.actions] == [Remove]


def test_without_a_place_for_checkpoints_nothing_is_waited_for() -> None:
    decision = a_job(1, suspend=True).training(0).decide()
    assert [type(action) for action in decision.actions] == [Remove]
    assert decision.status.phase is Phase.SUSPENDED


def test_a_script_that_follows_no_orders_is_not_waited_for() -> None:
    job = a_job(1, suspend=True, checkpoint=ON_CLAIM).training(0, in_process=False)
    script = job.with_worker(0, ready=False, arrived=1, in_process=False, saves_on_order=False)
    decision = script.decide()
    assert decision.status.orders is NO_ORDERS
    assert [type(action) for action in decision.actions] == [Remove], "it saves when it is told"


def test_outside_its_windows_a_job_is_suspended_by_its_schedule() -> None:
    windows = {"windows": [{"from": "20:00", "to": "06:00"}]}
    job = a_job(1, schedule=windows, checkpoint=ON_CLAIM)
    assert phase(job) == (Phase.SUSPENDED, "OutsideSchedule")
    assert job.decide().status.message == (
        f"Schedule: {SuspendedBy.SCHEDULE.purpose}; the next one begins on "
        "Mon 2026-03-02 at 20:00 UTC, in at most 8 h"
    )
    assert job.decide().wake_after_seconds == 3600, "then these are 7"
    assert job.decide(later(8 * 3600)).status.suspended_by is None


def test_a_checkpoint_from_before_the_suspension_is_not_the_one_that_was_ordered() -> None:
    job = a_job(1, suspend=True, checkpoint=ON_CLAIM).training(0).with_checkpoint(100)
    assert job.decide().actions == ()
    assert job.with_state(job.decide().status).decide(later(3)).actions == ()


def test_a_checkpoint_that_was_in_flight_when_one_was_ordered_is_not_the_one() -> None:
    job = a_job(1, suspend=True, checkpoint=ON_CLAIM).training(0)
    ordered = job.with_state(job.decide().status)
    older = ordered.with_worker(
        0, ready=True, arrived=1, committed="step-9.g1", committed_orders=0
    ).decide(later(3))
    assert (older.status.checkpoint is not None, older.actions) == (True, ())
    answered = ordered.with_state(older.status).with_worker(
        0, ready=True, arrived=1, committed="step-12.g1", committed_orders=1
    )
    assert [type(action) for action in answered.decide(later(5)).actions] == [Remove]


def test_the_last_worker_to_report_a_checkpoint_may_know_that_it_was_ordered() -> None:
    job = a_job(2, suspend=True, checkpoint=ON_CLAIM).training(0, 1)
    saved: dict[str, Any] = {"ready": True, "arrived": 1, "committed": "step-9.g1"}
    job = job.with_state(job.decide().status).with_worker(0, committed_orders=0, **saved)
    first = job.decide(later(3))
    assert first.actions == ()
    both = job.with_state(first.status).with_worker(1, committed_orders=1, **saved).decide(later(4))
    checkpoint = AcknowledgedCheckpoint("step-9.g1", 9, later(3), orders=1)
    assert (both.status.checkpoint, len(both.actions)) == (checkpoint, 2)
