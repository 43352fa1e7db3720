from dataclasses import replace

from spotrun.policies.budget.spend.decide import SpendDecision, decide
from spotrun.policies.budget.spend.facts import JobFacts, Limit
from tests.support.jobs.builders import NOW, later
from tests.support.money.shared_limits import a_job, a_limit, asking, running, usd


def names(jobs: tuple[JobFacts, ...]) -> list[str]:
    return [job.name for job in jobs]


def stored(limit: Limit, decision: SpendDecision) -> Limit:
    return replace(limit, state=decision.states[limit.name])


def test_each_job_hears_what_holds_it_or_that_it_may_start() -> None:
    decision = decide([a_limit("5")], [asking("a", age=9), asking("b", age=5)], NOW)
    assert decision.verdicts["uid-a"].is_granted
    assert not decision.verdicts["uid-a"].holds
    assert "smallest useful piece" in decision.verdicts["uid-b"].holds
    state = decision.states["team"]
    assert (state.held, state.held_jobs, state.reserved_usd) == (1, ("b",), usd("2.6"))


def test_a_job_that_no_limit_covers_hears_nothing() -> None:
    limit = a_limit(selector={"matchLabels": {"team": "x"}})
    assert not decide([limit], [asking("a")], NOW).verdicts
    assert not decide([], [asking("a")], NOW).verdicts


def test_words_are_not_written_anew_at_each_look() -> None:
    limits, jobs = [a_limit("1")], [asking("a")]
    first = decide(limits, jobs, NOW).verdicts
    second = decide(limits, [replace(jobs[0], usd=usd("0.3"))], later(60), first).verdicts
    assert second["uid-a"] is first["uid-a"]


def test_a_stopped_job_is_held_until_its_workers_are_gone() -> None:
    limit = a_limit("0.5", onExceeded="Suspend")
    first = decide([limit], [running("a", price="2")], NOW).verdicts
    assert "this job was the cheapest to stop" in first["uid-a"].holds
    leaving = running("a", is_held=True, is_stopping=True)
    assert decide([a_limit("50", onExceeded="Suspend")], [leaving], NOW, first).verdicts == first
    new_leader = decide([limit], [leaving], NOW).verdicts
    assert "its workers leave" in new_leader["uid-a"].holds
    gone = asking("a", spent="0.1", is_held=True)
    state = decide([limit], [gone], NOW).states["team"]
    assert (state.held, state.suspended_jobs) == (0, ("a",))


def test_spending_is_protected_before_it_begins_and_released_once_it_is_stored() -> None:
    new, idle = asking("new", finalizers=()), a_job("idle", finalizers=())
    assert names(decide([a_limit()], [new, idle], NOW).protect) == ["new"]
    gone = running("gone", is_deleting=True)
    limit = a_limit()
    first = decide([limit], [gone], NOW)
    assert not first.release
    assert names(decide([stored(limit, first)], [gone], NOW).release) == ["gone"]


def test_each_limit_has_to_have_stored_it() -> None:
    one, two = a_limit(name="one"), a_limit(name="two")
    gone = running("gone", is_deleting=True)
    first = decide([one, two], [gone], NOW)
    assert not decide([stored(one, first), two], [gone], NOW).release
    both = [stored(one, first), stored(two, first)]
    assert names(decide(both, [gone], NOW).release) == ["gone"]


def test_without_a_limit_nobody_is_kept() -> None:
    jobs = [running("a"), running("b", is_deleting=True)]
    assert names(decide([], jobs, NOW).release) == ["a", "b"]


def test_it_looks_again_while_something_runs_and_when_the_period_ends() -> None:
    assert decide([a_limit()], [running("a")], NOW).wake_after_seconds == 30
    end = a_limit().period(NOW).end
    assert end is not None
    waits = decide([a_limit()], [], NOW).wake_after_seconds
    assert waits == (end - NOW).total_seconds()
    assert decide([a_limit(period="Total")], [], NOW).wake_after_seconds == float("inf")
