"""Every other policy, by table."""

from dataclasses import replace
from typing import Any

import pytest

from spotrun.api.field_types.amounts import Amount, Percent
from spotrun.api.field_types.text_values import Time
from spotrun.api.names import ConditionType, Phase, Reason, SuspendedBy
from spotrun.api.status import CheckpointStatus, Orders, Progress, Restarts
from spotrun.money.shares import Resources
from spotrun.policies.failures.backoff import nodes_to_avoid, pause_after
from spotrun.policies.report.write_rate import refresh_seconds
from spotrun.state.actions import Create, Release, Remove
from spotrun.state.conditions import find, holds_since, record, state
from spotrun.state.job_state import JobState
from spotrun.state.sizes import largest, wanted
from spotrun.state.snapshot import Node, PodEnd, PodPhase, Refusal
from spotrun.wire import Ending, Failure, LastWords
from spotrun.wire import Progress as Reported
from tests.support.jobs.builders import NOW, ON_CLAIM, JobBuilder, a_job, a_spec, ago, an_end, later
from tests.support.jobs.stored_state import stored

BOOM = Failure(1, 3, "boom")


def condition(job: JobBuilder, kind: ConditionType) -> tuple[str, str] | None:
    found = find(job.decide().status, kind)
    return None if found is None else (found.status.value, found.reason)


def phase(job: JobBuilder) -> tuple[Phase | None, str | None]:
    status = job.decide().status
    return status.phase, status.reason


# sizes, roster, settle ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "spec", "expected"),
    [
        (3, {"max": 5}, 3),
        (0, {"min": 2, "max": 5}, 2),
        (9, {"max": 5}, 5),
        (3, {"max": 8, "sizes": [2, 4, 8]}, 2),
        (1, {"max": 8, "sizes": [2, 4, 8]}, 2),
        (7, {"min": 2, "max": 8, "perReplica": 2}, 6),
    ],
)
def test_the_wanted_size(replicas: int, spec: dict[str, Any], expected: int) -> None:
    assert wanted(a_spec(replicas, **spec).workers) == expected


def test_the_largest_size_that_can_be_had() -> None:
    workers = a_spec(8, min=2, max=8, perReplica=2).workers
    assert [largest(workers, n) for n in (0, 1, 2, 3, 7, 8, 9)] == [0, 0, 2, 2, 6, 8, 8]


def test_numbers_are_given_out_once_and_workers_made_after() -> None:
    decision = a_job(2, min=2).decide()
    assert decision.status.next_serial == 2
    assert decision.actions == (Create(0), Create(1))
    again = a_job(2, min=2).with_worker(1).decide()
    assert (again.status.next_serial, again.actions) == (2, (Create(0),))


def test_a_failed_worker_is_settled_released_and_replaced_after_the_pause() -> None:
    job = a_job(1).with_worker(0, **an_end(Ending.FAILED, 3))
    decision = job.decide()
    assert (decision.status.settled, decision.status.next_serial) == ("0", 2)
    assert decision.actions == (Release(0, "uid-0"),)
    after = job.with_state(decision.status).decide(later(10))
    assert after.actions == (Release(0, "uid-0"), Create(1))


def test_a_silent_worker_is_replaced_and_fenced_by_its_uid() -> None:
    job = a_job(1).with_worker(0, ready=True, heard=9, node=Node("n", ready=False))
    decision = job.decide()
    why = "no sign of life from job-0"
    assert decision.actions == (Remove(0, "uid-0", Reason.NODE_LOST, why), Create(1, ("n",)))
    assert decision.status.settled is None


@pytest.mark.parametrize(
    ("end", "reason"), [(an_end(Ending.DEPARTED), "Completed"), (an_end(None, 1), "ExitCode")]
)
def test_a_pod_that_side_containers_keep_busy_is_removed_and_settled_once_they_have_ended(
    end: dict[str, Any], reason: str
) -> None:
    running = {**end, "phase": PodPhase.RUNNING}
    decision = a_job(1).with_worker(0, **running).decide()
    assert decision.status.settled is None
    removed = [(a.serial, a.reason) for a in decision.actions if isinstance(a, Remove)]
    assert removed == [(0, reason)]
    over = a_job(1).with_worker(0, **end).decide()
    assert over.status.settled == "0"
    assert not any(isinstance(action, Remove) for action in over.actions)


def test_surplus_workers_go_the_least_useful_first() -> None:
    job = a_job(1, max=3).with_worker(0, ready=True).with_worker(1).with_worker(2, node=None)
    went = [a.serial for a in job.decide().actions if isinstance(a, Remove)]
    assert went == [2, 1]


def test_numbers_owed_to_a_suspended_job_are_settled_without_a_pod() -> None:
    decision = a_job(2, suspend=True).with_status(next_serial=2).decide()
    assert (decision.status.settled, decision.actions) == ("0-1", ())


def test_a_member_that_vanished_is_made_anew_only_when_no_world_counts_on_it() -> None:
    job = a_job(2, min=2).training(0, 1).without(1).with_facts(lost_seconds={1: 0.01})
    assert job.decide().actions == ()
    assert job.with_facts(lost_seconds={1: 0.3}).decide().actions == (Create(1),)


def test_of_a_deleted_job_only_settled_pods_are_released() -> None:
    job = a_job(2).with_worker(0, **an_end()).with_worker(1).with_facts(deleting=True)
    assert job.decide().actions == (Release(0, "uid-0"),)


# failures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("failures", "seconds"), [(1, 10), (2, 20), (5, 160), (6, 300), (99, 300)])
def test_the_pause_doubles_up_to_five_minutes(failures: int, seconds: int) -> None:
    assert pause_after(failures).total_seconds() == seconds


def failing(before: int = 0, since: float = 60.0, **spec: Any) -> JobBuilder:
    job = a_job(2, min=2, **spec).training(0, 1, generation=5, failed=Failure(5, 3, "boom"))
    restarts = Restarts(failures=before, counted_since=Time.of(ago(since)), last_generation=4)
    return job.with_status(restarts=restarts)


def test_peers_failures_are_one() -> None:
    restarts = failing(1).decide().status.restarts
    assert restarts == Restarts(
        failures=2,
        counted_since=Time.of(NOW),
        retry_at=Time.of(later(20)),
        last_generation=5,
        last_reason="ExitCode",
        last_exit_code=3,
        last_message="boom",
        blamed=("node-0",),
    )
    assert failing(1).with_status(restarts=restarts).decide(later(30)).status.restarts == restarts


def test_an_hour_of_durable_progress_forgives() -> None:
    job = failing(3, since=4000).with_checkpoint(seconds_ago=400)
    restarts = job.decide().status.restarts
    assert restarts is not None
    assert restarts.failures == 1


@pytest.mark.parametrize(
    ("failures", "spec", "reason"),
    [
        (0, {"failures": {"maxRestarts": 0}}, Reason.TOO_MANY_RESTARTS),
        (3, {}, Reason.TOO_MANY_RESTARTS),
        (0, {"failures": {"fatalExitCodes": [3]}}, Reason.FATAL_EXIT_CODE),
        (2, {}, None),
    ],
)
def test_one_failure_too_many_ends_the_job_once_it_is_known_to_be_one(
    failures: int, spec: dict[str, Any], reason: Reason | None
) -> None:
    job = failing(failures, **spec)
    decision = job.decide()
    assert decision.status.phase is not Phase.FAILED
    assert reason is None or decision.again_seconds == 5
    after = job.with_state(decision.status).decide(later(5)).status
    assert (after.phase is Phase.FAILED) is (reason is not None)
    assert reason is None or after.reason == reason


def test_a_failure_that_followed_from_a_lost_node_is_taken_back() -> None:
    job = failing(0, failures={"maxRestarts": 0})
    counted = job.with_state(job.decide().status)
    lost = counted.with_worker(1, node=Node("n", gone=True)).decide(later(4)).status
    assert lost.restarts is not None
    assert (lost.restarts.failures, lost.restarts.retry_at) == (0, None)
    assert lost.restarts.last_reason == "NodeLost"
    assert lost.phase is not Phase.FAILED


def test_a_node_blamed_twice_is_avoided() -> None:
    restarts = Restarts(blamed=("a", "b", "a", "c"))
    job = a_job(1).with_status(restarts=restarts)
    assert nodes_to_avoid(job.status) == ("a",)
    assert job.decide().actions == (Create(0, ("a",)),)


# the end ----------------------------------------------------------------------------------------


def test_any_member_may_say_that_the_training_is_complete() -> None:
    job = a_job(2).training(0, 1).with_worker(1, ready=True, arrived=1, completed=True)
    assert phase(job) == (Phase.SUCCEEDED, "Completed")
    assert condition(job, ConditionType.COMPLETE) == ("True", "Completed")
    assert job.decide().actions == ()


def test_it_is_also_complete_while_another_world_is_prepared() -> None:
    job = a_job(2).training(0).with_worker(0, ready=True, arrived=1, completed=True)
    job = job.with_worker(1, ready=False).with_world("0-1", 2, switch=False, trained="0", trains=1)
    assert phase(job)[0] is Phase.SUCCEEDED


def test_a_worker_of_an_older_world_says_nothing_about_this_one() -> None:
    job = a_job(1).training(0, generation=2).with_worker(0, ready=True, arrived=1, completed=True)
    assert phase(job)[0] is Phase.RUNNING


@pytest.mark.parametrize(
    ("deadline", "expected"),
    [
        ({"finishWithin": "1h", "onMissed": "Fail"}, Phase.FAILED),
        ({"finishWithin": "1h"}, Phase.PENDING),
        ({"finishWithin": "2h", "onMissed": "Fail"}, Phase.PENDING),
        ({"finishBefore": "2026-03-02T12:00:00Z", "onMissed": "Fail"}, Phase.FAILED),
        ({"finishBefore": "2026-03-02T12:00:01Z", "onMissed": "Fail"}, Phase.PENDING),
    ],
)
def test_a_deadline_ends_a_job_only_if_it_says_so(
    deadline: dict[str, Any], expected: Phase
) -> None:
    job = a_job(1, deadline=deadline)
    assert phase(job)[0] is expected
    if expected is Phase.FAILED:
        assert phase(job)[1] == "DeadlineMissed"


# suspension -------------------------------------------------------------------------------------


def test_a_suspension_waits_for_the_checkpoint_it_ordered() -> None:
    job = a_job(1, suspend=True, checkpoint=ON_CLAIM).training(0)
    decision = job.decide()
    status = decision.status
    assert status.suspended_by == (SuspendedBy.USER,)
    assert status.orders == Orders(checkpoint=1, time=Time.of(NOW))
    assert (decision.actions, decision.again_seconds) == ((), refresh_seconds(job.snapshot()))
    waiting = job.with_state(status)
    assert waiting.decide(later(109)).actions == ()
    assert len(waiting.decide(later(110)).actions) == 1
    saved = waiting.with_worker(0, ready=True, arrived=1, committed="step-9.g1").decide(later(3))
    assert saved.status.checkpoint == CheckpointStatus(
        name="step-9.g1", step=9, time=Time.of(later(3))
    )
    assert [type(action) for action in saved.actions] == [Remove]


def test_without_a_place_for_checkpoints_nothing_is_waited_for() -> None:
    decision = a_job(1, suspend=True).training(0).decide()
    assert [type(action) for action in decision.actions] == [Remove]
    assert decision.status.phase is Phase.SUSPENDED


def test_a_script_that_follows_no_orders_is_not_waited_for() -> None:
    job = a_job(1, suspend=True, checkpoint=ON_CLAIM).training(0, in_process=False)
    script = job.with_worker(0, ready=False, arrived=1, in_process=False, saves_on_order=False)
    decision = script.decide()
    assert decision.status.orders is None
    assert [type(action) for action in decision.actions] == [Remove], "it saves when it is told"


def test_what_breaks_off_while_a_job_is_suspended_is_no_failure() -> None:
    job = a_job(2, suspend=True, checkpoint=ON_CLAIM).training(0, 1, in_process=False)
    job = job.with_state(job.decide().status)
    failed = Failure(1, 1, "rank 1 ended with exit code 1: connection closed by peer")
    broken = job.with_worker(1, ready=False, arrived=1, in_process=False, failed=failed)
    assert broken.decide().status.restarts is None


def test_outside_its_windows_a_job_is_suspended_by_its_schedule() -> None:
    windows = {"windows": [{"from": "20:00", "to": "06:00"}]}
    job = a_job(1, schedule=windows, checkpoint=ON_CLAIM)
    assert phase(job) == (Phase.SUSPENDED, "OutsideSchedule")
    assert job.decide().status.message == (
        f"Schedule: {SuspendedBy.SCHEDULE.purpose}; the next one begins on "
        "Mon 2026-03-02 at 20:00 UTC, in at most 8 h"
    )
    assert job.decide().again_seconds == 3600, "then these are 7"
    assert job.decide(later(8 * 3600)).status.suspended_by is None


def test_a_checkpoint_is_ordered_when_more_leave_than_a_world_can_spare() -> None:
    job = a_job(2, min=2, checkpoint=ON_CLAIM).training(0, 1)
    job = job.with_worker(1, ready=True, arrived=1, leaves_in=60)
    assert job.decide().status.orders == Orders(checkpoint=1, time=Time.of(NOW))
    spare = job.with_worker(2, ready=True).decide().status
    assert spare.orders is None


# what is said -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (a_job(1), (Phase.PENDING, "WaitingForCapacity")),
        (a_job(1).with_worker(0), (Phase.STARTING, "WaitingForWorkers")),
        (a_job(1).with_worker(0, node=None), (Phase.PENDING, "WaitingForCapacity")),
        (a_job(1).training(0), (Phase.RUNNING, "Training")),
        (
            a_job(1).with_facts(refusal=Refusal("Forbidden", "no")),
            (Phase.PENDING, "TemplateRefused"),
        ),
        (
            a_job(1).with_facts(refusal=Refusal("NameTaken", "pod job-0 is somebody else's")),
            (Phase.PENDING, "NameTaken"),
        ),
        (a_job(1).with_facts(may_hold_nodes=False), (Phase.PENDING, "WaitingForGang")),
        (a_job(2).with_facts(volume_is_shared=False), (Phase.PENDING, "VolumeNotShared")),
        (
            a_job(1).with_status(phase=Phase.RUNNING).with_worker(0),
            (Phase.RECOVERING, "WaitingForWorkers"),
        ),
    ],
)
def test_the_phase_and_its_reason(job: JobBuilder, expected: tuple[Phase, str]) -> None:
    assert phase(job) == expected


def test_a_gang_that_must_wait_gives_its_nodes_back_and_one_that_trains_does_not() -> None:
    waiting = a_job(1).with_worker(0).with_facts(may_hold_nodes=False).decide()
    assert [(type(a), getattr(a, "reason", None)) for a in waiting.actions] == [
        (Remove, Reason.WAITING_FOR_GANG)
    ]
    assert a_job(1).training(0).with_facts(may_hold_nodes=False).decide().actions == ()


def test_a_volume_for_one_node_is_refused_to_several_workers() -> None:
    job = a_job(2).with_facts(volume_is_shared=False)
    assert job.decide().actions == ()
    kind = ConditionType.CHECKPOINT_USABLE
    assert condition(job, kind) == ("False", "VolumeNotShared")
    assert condition(a_job(1).with_facts(volume_is_shared=False), kind) == ("True", "Training")
    assert condition(a_job(2), kind) is None


def claiming(**spec: Any) -> JobBuilder:
    """A job whose workers are given their devices by dynamic resource allocation."""
    resources = {"claims": [{"name": "gpus"}], **spec.pop("resources", {})}
    trainer = {"name": "trainer", "image": "x", "resources": resources}
    claims = [{"name": "gpus", "resourceClaimTemplateName": "four-gpus"}]
    workers = a_job(2, template={"spec": {"containers": [trainer], "resourceClaims": claims}})
    spec = {"workers": workers.spec.workers.model_copy(update=spec)}
    job = replace(workers, spec=workers.spec.model_copy(update=spec))
    return job.with_facts(claims_uncounted="the claim is not there")


def test_where_devices_are_claimed_it_must_be_said_how_many_processes_there_are() -> None:
    job, kind = claiming(), ConditionType.TEMPLATE_ACCEPTED
    assert job.decide().actions == ()
    assert phase(job) == (Phase.PENDING, "ProcessesUnknown")
    assert condition(job, kind) == ("False", "ProcessesUnknown")
    message = job.decide().status.message or ""
    assert "(the claim is not there)" in message
    assert message.endswith("suspend: true in the same change")


@pytest.mark.parametrize(
    "known",
    [
        claiming(processes=4),
        claiming().with_facts(requests=Resources(gpus=1)),
        claiming().with_facts(claims_uncounted="", claimed=4),
        claiming().with_facts(claimed=4),
        claiming().training(0, 1),
    ],
    ids=[
        "it is said",
        "the limits say it",
        "it is counted",
        "its workers know it",
        "it ran before they were looked at",
    ],
)
def test_where_it_is_known_devices_may_be_claimed(known: JobBuilder) -> None:
    assert "ProcessesUnknown" not in str(known.decide().status)


def test_interruptions_are_counted_in_the_write_that_settles_them() -> None:
    job = a_job(1).with_worker(0, node=Node("n", gone=True))
    status = job.decide().status
    assert status.interruptions is not None
    assert (status.interruptions.count, status.settled) == (1, "0")
    again = job.with_state(status).decide().status
    assert again.interruptions == status.interruptions
    assert condition(job, ConditionType.INTERRUPTED) == ("True", "NodeLost")
    back = job.with_state(status).training(1)
    assert condition(back, ConditionType.INTERRUPTED) == ("False", "Training")


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (Reported(1, 50), Progress(step=50)),
        (Reported(1, 50, 200), Progress(step=50, total_steps=200, percent=Percent("25%"))),
        (Reported(1, 300, 200), Progress(step=300, total_steps=200, percent=Percent("100%"))),
        (
            Reported(1, 10, None, 320, 0.5),
            Progress(step=10, samples_per_second=Amount("64.000")),
        ),
        (
            Reported(1, 1, None, 2**53, 1e-300),
            Progress(step=1, samples_per_second=Amount("1000000000.000")),
        ),
    ],
)
def test_progress_is_what_members_report(reported: Reported, expected: Progress) -> None:
    status = a_job(1).training(0, progress=reported).decide().status
    assert status.progress is not None
    assert vars(status.progress) == vars(expected)


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (Reported(2, 40), Progress(step=40, total_steps=200, percent=Percent("20%"))),
        (Reported(2, 40, 80), Progress(step=40, total_steps=80, percent=Percent("50%"))),
        (Reported(2, 0), Progress(step=50, total_steps=200, percent=Percent("25%"))),
        (Reported(2, 0, 200), Progress(step=50, total_steps=200, percent=Percent("25%"))),
    ],
)
def test_a_process_that_has_just_started_erases_nothing_that_was_known(
    reported: Reported, expected: Progress
) -> None:
    known = Progress(step=50, total_steps=200, percent=Percent("25%"))
    job = a_job(1).training(0, progress=reported).with_status(progress=known)
    assert job.decide().status.progress == expected


def test_strangers_to_the_world_report_no_progress_and_no_checkpoint() -> None:
    job = a_job(1, max=2).training(0).with_worker(1, ready=True, committed="step-900.g1")
    assert job.decide().status.checkpoint is None


def test_a_checkpoint_in_the_last_words_of_a_member_is_acknowledged() -> None:
    words = LastWords(Ending.DEPARTED, step=40, checkpoint="step-40.g1")
    ended = {"phase": PodPhase.FAILED, "end": PodEnd(exit_code=0, words=words)}
    job = a_job(2).training(0, 1, committed="step-5.g1").with_worker(1, **ended)
    acknowledged = job.decide().status.checkpoint
    assert acknowledged is not None
    assert (acknowledged.name, acknowledged.step) == ("step-40.g1", 40)


def test_an_older_checkpoint_is_no_news() -> None:
    job = a_job(1).training(0, committed="step-5.g1").with_checkpoint(7)
    assert job.decide().status.checkpoint == job.status.checkpoint


# ledger and pace --------------------------------------------------------------------------------


def test_a_condition_remembers_when_it_changed() -> None:
    job, kind = a_job(1), ConditionType.RUNNING
    first = state(job.view(ago(9)), job.status, kind, Reason.TRAINING, "a", holds=True)
    same = state(job.view(), first, kind, Reason.TRAINING, "a", holds=True)
    assert same is first
    reworded = state(job.view(), first, kind, Reason.RESIZING, "b", holds=True)
    assert holds_since(reworded, kind) == ago(9)
    changed = state(job.view(), reworded, kind, Reason.RESIZING, "b", holds=False)
    assert holds_since(changed, kind) is None


def test_the_last_ten_decisions_are_kept() -> None:
    job, status = a_job(1), JobState()
    for number in range(12):
        status = record(job.view(), status, "World", str(number), {})
    assert [decision.why for decision in status.decisions or ()] == [str(n) for n in range(2, 12)]


def test_a_quiet_job_stays_quiet_and_its_status_is_valid() -> None:
    job = a_job(3, min=2).training(0, 1, 2)
    status = job.decide().status
    again = replace(job, status=stored(status)).decide()
    assert (again.status, again.actions) == (status, ())


def test_agents_that_are_too_old_are_named() -> None:
    job = a_job(2).training(0, 1)
    worker = job.workers[1]
    old = replace(job, workers={**job.workers, 1: replace(worker, speaks_old_wire=True)})
    kind = ConditionType.AGENTS_SUPPORTED
    assert condition(job, kind) is None
    assert condition(old, kind) == ("False", "AgentTooOld")
    mended = job.with_status(conditions=old.decide().status.conditions)
    assert condition(mended, kind) == ("True", "Training")


def test_a_checkpoint_from_before_the_suspension_is_not_the_one_that_was_ordered() -> None:
    job = a_job(1, suspend=True, checkpoint=ON_CLAIM).training(0).with_checkpoint(100)
    assert job.decide().actions == ()
    assert job.with_state(job.decide().status).decide(later(3)).actions == ()
