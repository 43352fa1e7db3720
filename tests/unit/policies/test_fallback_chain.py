"""Jobs that nobody can decide are charged, suspended, stopped at their budget, and released."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from spotrun.api.field_types.bounded import MAX_DETAIL_CHARS
from spotrun.api.field_types.text_values import WorkerIds
from spotrun.api.names import ConditionType, Phase, Reason, SuspendedBy
from spotrun.policies import fallback_chain as module
from spotrun.policies.fallback_chain import let_go, undecided
from spotrun.policies.policy import Conclude
from spotrun.state.actions import Annotate, Decision, Release, Remove
from spotrun.state.conditions import find
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Broken, Node, PodPhase
from spotrun.state.view import View
from spotrun.wire import Ending
from tests.support.jobs.builders import NOW, ON_CLAIM, JobBuilder, a_job, an_end, later
from tests.support.jobs.stored_state import cost_of, sums_of
from tests.support.money.priced_nodes import at_work, ended

TRAINING = at_work(a_job(2).training(0, 1), 0, 1, ready=True, arrived=1)
UNREADABLE = Broken("this operator cannot read the job: workers.template.spec: no")
NO_LEDGER = replace(UNREADABLE, has_ledger=False, may_be_said=False)
IMPOSSIBLE = Broken("no", ConditionType.DECIDED, Reason.LEDGER_REFUSED, has_ledger=False)
MISTAKE = "the operator failed to decide about this job and tries again: KeyError: 'workers'"


def broken(job: JobBuilder, why: Broken = UNREADABLE) -> JobBuilder:
    return job.with_facts(broken=why)


def removed(decision: Decision) -> list[int]:
    return [one.worker_id for one in decision.actions if isinstance(one, Remove)]


def released(decision: Decision) -> list[int]:
    return [one.worker_id for one in decision.actions if isinstance(one, Release)]


def stated(status: JobState, kind: ConditionType) -> tuple[str, str, str]:
    found = find(status, kind)
    assert found is not None
    return found.status.value, found.reason, found.message


def mistaken(job: JobBuilder) -> Decision:
    return let_go(undecided(job.snapshot(), KeyError("workers")), NOW)


def test_a_job_that_cannot_be_read_says_so_trains_on_and_is_charged() -> None:
    decision = broken(TRAINING).decide()
    status = decision.status
    assert [type(action) for action in decision.actions] == [Annotate]
    assert (status.phase, status.reason) == (Phase.RUNNING, "TemplateRefused")
    assert status.message == UNREADABLE.message
    said = stated(status, ConditionType.TEMPLATE_ACCEPTED)
    assert said == ("False", "TemplateRefused", UNREADABLE.message)
    cost = cost_of(status)
    assert (cost.usd, cost.usd_per_hour) == ("2", "2")
    kept = ("world", "next_worker_id", "settled")
    assert all(getattr(status, name) == getattr(TRAINING.status, name) for name in kept)
    assert decision.wake_after_seconds <= 60


def test_a_job_at_which_a_policy_fails_says_so_and_forgets_nothing() -> None:
    status = mistaken(TRAINING).status
    assert (status.phase, status.reason, status.message) == (Phase.RUNNING, "Undecided", MISTAKE)
    assert stated(status, ConditionType.DECIDED) == ("False", "Undecided", MISTAKE)
    assert status.world == TRAINING.status.world


def test_the_same_failure_is_no_news() -> None:
    once = let_go(undecided(TRAINING.snapshot(), ValueError("x" * 10_000)), NOW).status
    assert len(once.message or "") < MAX_DETAIL_CHARS + 200
    again = TRAINING.with_state(once).with_facts(written_seconds=1.0)
    decision = let_go(undecided(again.snapshot(), ValueError("x" * 10_000)), later(1))
    assert decision.status == once


def test_a_job_that_can_be_decided_again_says_so_once() -> None:
    healed = TRAINING.with_state(mistaken(TRAINING).status).decide().status
    assert stated(healed, ConditionType.DECIDED)[0] == "True"
    assert (healed.phase, healed.reason) == (Phase.RUNNING, Reason.TRAINING.value)
    assert find(TRAINING.decide().status, ConditionType.DECIDED) is None


@pytest.mark.parametrize("why", [UNREADABLE, NO_LEDGER])
def test_a_job_that_cannot_be_decided_is_suspended_all_the_same(why: Broken) -> None:
    decision = broken(TRAINING.with_spec(2, suspend=True), why).decide()
    assert removed(decision) == [0, 1]
    if why.has_ledger:
        status = decision.status
        assert (status.phase, status.suspended_by) == (Phase.SUSPENDED, (SuspendedBy.USER,))
        assert stated(status, ConditionType.SUSPENDED)[0] == "True"
        assert stated(status, ConditionType.RUNNING)[0] == "False"
        assert status.message == f"{UNREADABLE.message}; User: spec.suspend is true"
    else:
        assert decision.status == TRAINING.status, "what cannot be read is not written"


def test_a_ledger_that_cannot_be_true_is_told_of_and_kept() -> None:
    job = broken(TRAINING.with_spec(2, suspend=True), IMPOSSIBLE)
    decision = job.decide()
    assert removed(decision) == [0, 1]
    assert stated(decision.status, ConditionType.DECIDED) == ("False", "LedgerRefused", "no")
    assert decision.status.next_worker_id == TRAINING.status.next_worker_id
    assert job.with_state(decision.status).decide(later(9)).status == decision.status


def test_before_that_its_state_is_saved() -> None:
    job = TRAINING.with_spec(2, suspend=True, checkpoint=ON_CLAIM)
    decision = broken(job).decide()
    assert removed(decision) == []
    assert decision.status.orders.checkpoint == 1
    held = broken(job.with_state(decision.status))
    assert removed(held.decide(later(60))) == []
    assert removed(held.decide(later(110))) == [0, 1]
    assert held.decide(later(60)).wake_after_seconds == 50


@pytest.mark.parametrize(
    ("on_exceeded", "phase"), [("Suspend", Phase.SUSPENDED), ("Fail", Phase.FAILED)]
)
def test_its_budget_is_kept(on_exceeded: str, phase: Phase) -> None:
    budget = {"maxCostUsd": "2.1", "onExceeded": on_exceeded}
    job = TRAINING.with_spec(2, checkpoint=ON_CLAIM, budget=budget)
    first = broken(job).decide()
    assert first.status.suspended_by == (SuspendedBy.BUDGET,)
    saved = job.with_state(first.status).with_checkpoint(seconds_ago=-60)
    later_on = broken(saved).decide(later(61))
    assert (later_on.status.phase, removed(later_on)) == (phase, [0, 1])


def test_below_it_nothing_that_holds_the_job_is_lifted() -> None:
    job = TRAINING.with_spec(2, checkpoint=ON_CLAIM, budget={"maxCostUsd": "9"})
    held = broken(job.with_status(suspended_by=(SuspendedBy.BUDGET,)))
    assert held.decide().status.suspended_by == (SuspendedBy.BUDGET,)


def test_who_has_ended_is_charged_and_released() -> None:
    job = broken(at_work(TRAINING, 1, **ended(1800)))
    status = job.decide().status
    assert str(status.settled) == "1"
    assert sums_of(status).usd == "0.5"
    stored = job.with_state(status).decide()
    assert released(stored) == [1]


def test_a_training_that_is_complete_ends_the_job() -> None:
    job = broken(TRAINING.with_worker(0, **an_end(Ending.COMPLETED)))
    assert job.decide().status.phase is Phase.SUCCEEDED


@pytest.mark.parametrize("why", [None, UNREADABLE, IMPOSSIBLE, NO_LEDGER])
def test_a_deleted_job_lets_go_of_who_has_ended(why: Broken | None) -> None:
    job = at_work(TRAINING, 1, **ended()).with_worker(0, deleting=True, killed_at=later(9))
    decision = job.with_facts(broken=why, deleting=True).decide()
    assert released(decision) == [1]
    assert removed(decision) == []
    expected = "1" if why is None or why.has_ledger else ""
    assert str(decision.status.settled) == expected


def test_numbers_that_were_never_made_are_not_waited_for_when_the_job_is_deleted() -> None:
    job = at_work(TRAINING, 0, 1, **ended()).with_status(next_worker_id=4)
    assert str(job.with_facts(deleting=True).decide().status.settled) == "0-3"


def failing(steps: tuple[Conclude, ...], name: str) -> tuple[Conclude, ...]:
    """The steps, one of which fails as a policy with a mistake does."""

    def fail(view: View, status: JobState) -> JobState:
        raise ValueError(f"a mistake in {name}")

    return tuple(fail if one.__name__ == name else one for one in steps)


NAMES = [one.__name__ for one in module._OF_BROKEN]
SUSPENSION = ("suspend", "_order_last_checkpoint")


@pytest.mark.parametrize("name", NAMES)
def test_each_step_stands_by_itself(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(module, "_OF_BROKEN", failing(module._OF_BROKEN, name))
    job = broken(TRAINING.with_spec(2, suspend=True))
    decision = job.decide()
    assert removed(decision) == ([] if name == "suspend" else [0, 1])
    assert f"a mistake in {name}" in stated(decision.status, ConditionType.DECIDED)[2]


@pytest.mark.parametrize("name", [one.__name__ for one in module._OF_DELETED])
def test_a_deletion_waits_for_no_step(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(module, "_OF_DELETED", failing(module._OF_DELETED, name))
    job = at_work(TRAINING, 0, 1, **ended()).with_facts(deleting=True)
    assert released(job.decide()) == [0, 1]


def raising(*_: object) -> Any:
    raise ValueError("nobody can tell")


@pytest.mark.parametrize("name", ["has_ended", "departures"])
def test_nor_do_the_others_for_what_is_to_be_done(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(module, name, named(name))
    job = at_work(TRAINING, 1, **ended()).with_status(settled=WorkerIds("1").ranges)
    assert released(broken(job).decide()) == [1]
    assert released(job.with_facts(deleting=True).decide()) == [1]


@pytest.mark.parametrize(
    ("steps", "name"),
    [(kind, one.__name__) for kind in ("_ACTIONS", "_NEWS") for one in getattr(module, kind)],
)
def test_nor_for_another_action_or_announcement(
    monkeypatch: pytest.MonkeyPatch, steps: str, name: str
) -> None:
    monkeypatch.setattr(module, steps, failing(getattr(module, steps), name))
    job = at_work(TRAINING, 1, **ended()).with_status(settled=WorkerIds("1").ranges)
    assert released(broken(job).decide()) == ([] if name == "releases" else [1])
    assert released(job.with_facts(deleting=True).decide()) == [1]


def named(name: str) -> Callable[..., Any]:
    def step(*arguments: object) -> Any:
        return raising(*arguments)

    step.__name__ = name
    return step


def test_a_lost_worker_is_released_when_its_node_is_gone() -> None:
    job = TRAINING.with_worker(1, node=Node("a", gone=True), phase=PodPhase.RUNNING)
    assert released(broken(job.with_facts(deleting=True), NO_LEDGER).decide()) == [1]
