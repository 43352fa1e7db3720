import math
from dataclasses import replace
from typing import Any

import pytest

from spotrun.api.names import Phase, SuspendedBy
from spotrun.api.tuning.words import TrialPhase, TuningReason
from spotrun.money.other_costs.storage_costs import StorageUsd
from spotrun.policies.tuning.following import is_settled
from spotrun.search.trial import Report
from spotrun.state.job_state import JobState
from spotrun.state.stored.cost import StorageSums
from spotrun.state.stored.training import AcknowledgedCheckpoint
from tests.support.jobs.builders import NOW
from tests.support.tuning.searches import a_job, a_population, a_search, usd

DONE: dict[str, Any] = {"settled": 1, "cost": "0.25"}


@pytest.mark.parametrize(
    ("state", "loss", "phase", "reason"),
    [
        (a_job(Phase.RUNNING), 0.5, TrialPhase.RUNNING, None),
        (a_job(Phase.SUCCEEDED), 0.5, TrialPhase.STOPPING, TuningReason.TRIAL_SUCCEEDED),
        (a_job(Phase.SUCCEEDED), None, TrialPhase.RUNNING, None),
        (a_job(Phase.SUCCEEDED), math.nan, TrialPhase.RUNNING, None),
        (
            a_job(Phase.SUCCEEDED, **DONE),
            0.5,
            TrialPhase.SUCCEEDED,
            TuningReason.TRIAL_SUCCEEDED,
        ),
        (a_job(Phase.SUCCEEDED, **DONE), None, TrialPhase.FAILED, TuningReason.NO_METRIC),
        (a_job(Phase.SUCCEEDED, **DONE), math.nan, TrialPhase.FAILED, TuningReason.NOT_A_NUMBER),
        (a_job(Phase.RUNNING), math.nan, TrialPhase.STOPPING, TuningReason.NOT_A_NUMBER),
        (a_job(Phase.RUNNING), math.inf, TrialPhase.STOPPING, TuningReason.NOT_A_NUMBER),
        (
            a_job(Phase.FAILED, reason="ExitCode", **DONE),
            0.5,
            TrialPhase.FAILED,
            TuningReason.TRIAL_FAILED,
        ),
        (
            a_job(Phase.FAILED, reason="BudgetExceeded", **DONE),
            0.5,
            TrialPhase.STOPPED,
            TuningReason.BUDGET_EXCEEDED,
        ),
        (
            a_job(Phase.SUSPENDED, suspended_by=(SuspendedBy.BUDGET,)),
            0.5,
            TrialPhase.STOPPING,
            TuningReason.BUDGET_EXCEEDED,
        ),
    ],
)
def test_a_trial_follows_its_job(
    state: JobState, loss: float | None, phase: TrialPhase, reason: TuningReason | None
) -> None:
    [trial] = a_search().with_trial().with_job(0, state, loss=loss).trials()
    assert (trial.phase, trial.reason) == (phase, reason)


def test_a_trial_that_is_stopped_ends_once_its_workers_are_settled() -> None:
    stopping: dict[str, Any] = {
        "outcome": TrialPhase.PRUNED,
        "reason": TuningReason.TRIAL_PRUNED,
    }
    search = a_search().with_trial(TrialPhase.STOPPING, **stopping)
    leaving = search.with_job(0, a_job(Phase.SUSPENDED), is_suspended=True)
    assert leaving.trials()[0].phase is TrialPhase.STOPPING
    left = search.with_job(0, a_job(Phase.SUSPENDED, **DONE), is_suspended=True)
    [trial] = left.trials()
    assert (trial.phase, trial.usd, trial.ended_at) == (TrialPhase.PRUNED, usd("0.25"), NOW)


def test_a_job_that_went_on_meanwhile_is_not_taken_for_a_suspended_one() -> None:
    suspended = a_job(Phase.SUSPENDED, settled=1)
    snapshot = a_search().with_job(0, suspended, is_suspended=True, is_current=False).snapshot()
    assert not is_settled(snapshot.children[0])


def test_one_that_was_to_be_stopped_and_is_complete_has_succeeded() -> None:
    search = a_search().with_trial(TrialPhase.STOPPING, outcome=TrialPhase.PRUNED)
    [trial] = search.with_job(0, a_job(Phase.SUCCEEDED, **DONE), loss=0.1).trials()
    assert trial.phase is TrialPhase.SUCCEEDED


def test_steps_that_come_again_count_once() -> None:
    search = a_search().with_trial(value=0.5, step=100, course={100: 0.5})
    [trial] = search.with_job(0, loss=0.9, step=100).trials()
    assert (trial.value, trial.course) == (0.5, (Report(100, 0.5),))
    [trial] = search.with_job(0, loss=0.4, step=200).trials()
    assert (trial.value, trial.course) == (0.4, (Report(100, 0.5), Report(200, 0.4)))


def test_a_job_that_is_not_seen_yet_is_waited_for() -> None:
    assert a_search().with_trial(TrialPhase.RUNNING).trials()[0].phase is TrialPhase.RUNNING


def test_a_job_that_somebody_deleted_fails_its_trial_and_its_cost_stays() -> None:
    search = a_search().with_trial(TrialPhase.RUNNING, cost="1.5").with_facts(gone={0})
    [trial] = search.trials()
    assert (trial.phase, trial.reason) == (TrialPhase.FAILED, TuningReason.TRIAL_DELETED)
    assert search.decide().status.cost.usd == usd("1.5")


def test_a_job_that_is_gone_before_it_was_stopped_ends_as_that() -> None:
    search = a_search().with_trial(TrialPhase.STOPPING, outcome=TrialPhase.STOPPED)
    assert search.with_facts(gone={0}).trials()[0].phase is TrialPhase.STOPPED


def test_a_name_of_others_and_a_refusal_fail_the_trial() -> None:
    search = a_search().with_trial(TrialPhase.PENDING)
    assert search.with_facts(taken={0}).trials()[0].reason is TuningReason.NAME_TAKEN
    [trial] = search.with_facts(refused={0: "no such field"}).trials()
    assert (trial.reason, trial.message) == (TuningReason.TRIAL_REFUSED, "no such field")


def test_a_trial_waits_for_the_room_of_a_quota_and_says_so_until_it_runs() -> None:
    search = a_search().with_trial(TrialPhase.PENDING).with_facts(over_quota={0: "exceeded quota"})
    decision = search.decide()
    [trial] = decision.status.trials
    assert (trial.phase, trial.reason) == (TrialPhase.PENDING, TuningReason.QUOTA_EXCEEDED)
    assert trial.message == "exceeded quota"
    assert [step.number for step in decision.steps] == [0]
    [trial] = search.with_status(trials=(trial,)).with_job(0).trials()
    assert (trial.phase, trial.reason, trial.message) == (TrialPhase.RUNNING, None, None)


@pytest.mark.parametrize(
    ("causes", "reason"),
    [
        ([SuspendedBy.SPEND_LIMIT], TuningReason.SPEND_LIMITED),
        ([SuspendedBy.QUEUE], TuningReason.QUEUED),
        ([SuspendedBy.QUEUE, SuspendedBy.SPEND_LIMIT], TuningReason.SPEND_LIMITED),
        ([SuspendedBy.PREEMPTION], TuningReason.GIVES_WAY),
        ([SuspendedBy.SCHEDULE], TuningReason.OUTSIDE_SCHEDULE),
        ([SuspendedBy.IDLE], TuningReason.IDLE),
    ],
)
def test_a_trial_whose_job_is_held_says_by_what_until_it_goes_on(
    causes: list[SuspendedBy], reason: TuningReason
) -> None:
    held = a_job(Phase.SUSPENDED, suspended_by=tuple(causes), message="team has $1 left")
    search = a_search(trials={"max": 2, "parallel": 2}).with_trial(cap="3").with_trial(cap="3")
    decision = search.with_job(0, held).with_job(1).decide()
    trial = decision.status.trials[0]
    assert (trial.phase, trial.reason, trial.message) == (
        TrialPhase.RUNNING,
        reason,
        "team has $1 left",
    )
    assert f"2 run (1 of them waits: {reason.value})" in (decision.status.message or "")
    goes_on = search.with_status(trials=decision.status.trials).with_job(0).with_job(1).decide()
    trial = goes_on.status.trials[0]
    assert (trial.phase, trial.reason, trial.message) == (TrialPhase.RUNNING, None, None)
    assert "2 run;" in (goes_on.status.message or "")


def test_one_that_is_stopped_while_it_waits_in_the_queue_ends_without_a_worker() -> None:
    waits = a_job(Phase.SUSPENDED, suspended_by=(SuspendedBy.QUEUE,), given_out=0)
    search = a_search().with_trial(TrialPhase.STOPPING, outcome=TrialPhase.STOPPED)
    assert search.with_job(0, waits).trials()[0].phase is TrialPhase.STOPPING
    [trial] = search.with_job(0, waits, is_suspended=True).trials()
    assert (trial.phase, trial.usd) == (TrialPhase.STOPPED, usd("0"))


def test_the_newest_checkpoint_is_named_by_its_place() -> None:
    saved = AcknowledgedCheckpoint("step-9", 9, NOW)
    [trial] = a_search().with_trial().with_job(0, a_job(checkpoint=saved)).trials()
    assert trial.checkpoint == "ml/search-0-bp7jg/step-9"


@pytest.mark.parametrize(("phase", "settled"), [(Phase.RUNNING, 0), (Phase.SUCCEEDED, 1)])
def test_the_cost_of_a_trial_has_that_of_its_checkpoints(phase: Phase, settled: int) -> None:
    """The budget of its job pays both, so the sum of all trials has to have both."""
    job = a_job(phase, cost="0.25", settled=settled)
    storage = StorageSums(usd=StorageUsd(stored=usd("0.1"), requests=usd("0.02")))
    job = replace(job, accumulators=replace(job.accumulators, storage=storage))
    [trial] = a_search().with_trial().with_job(0, job, loss=0.5).trials()
    assert trial.usd == usd("0.37")


def test_a_member_of_a_population_without_a_checkpoint_has_failed() -> None:
    done = a_job(Phase.SUCCEEDED, **DONE)
    [trial] = a_population().with_trial().with_job(0, done, loss=0.5).trials()[:1]
    assert (trial.phase, trial.reason) == (TrialPhase.FAILED, TuningReason.NO_CHECKPOINT)
    saved = replace(done, checkpoint=AcknowledgedCheckpoint("step-100.g1", 100, NOW))
    [trial] = a_population().with_trial().with_job(0, saved, loss=0.5).trials()[:1]
    expected = (TrialPhase.SUCCEEDED, "ml/search-0-bp7jg/step-100.g1")
    assert (trial.phase, trial.checkpoint) == expected
