from spotrun.act.broken import broken_status, undecided
from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.decide.ledger import find
from tests.decide_builders import NOW, a_job, later

TRAINING = a_job(2).training(0, 1)


def test_a_job_at_which_a_policy_fails_says_so_and_forgets_nothing() -> None:
    job = TRAINING.snapshot()
    said = broken_status(undecided(job, KeyError("workers")), NOW)

    kept = ("phase", "world", "next_serial", "settled", "accumulators")
    assert {name: getattr(said, name) for name in kept} == {
        name: getattr(job.status, name) for name in kept
    }
    assert said.phase is Phase.RUNNING
    assert said.reason == Reason.UNDECIDED.value
    assert said.message == (
        "the operator failed to decide about this job and tries again: KeyError: 'workers'"
    )
    stated = find(said, ConditionType.DECIDED)
    assert stated is not None
    assert (stated.status, stated.message) == ("False", said.message)


def test_the_same_failure_is_no_news() -> None:
    job = TRAINING.snapshot()
    once = broken_status(undecided(job, ValueError("x" * 10_000)), NOW)
    assert len(once.message or "") < 700

    again = TRAINING.with_status(**dict(once)).snapshot()
    assert broken_status(undecided(again, ValueError("x" * 10_000)), later(60)) == once


def test_a_job_that_can_be_decided_again_says_so_once() -> None:
    broken = broken_status(undecided(TRAINING.snapshot(), KeyError("x")), NOW)
    healed = TRAINING.with_status(**dict(broken)).decide().status

    stated = find(healed, ConditionType.DECIDED)
    assert stated is not None
    assert stated.status == "True"
    assert (healed.phase, healed.reason) == (Phase.RUNNING, Reason.TRAINING.value)
    assert find(TRAINING.decide().status, ConditionType.DECIDED) is None
