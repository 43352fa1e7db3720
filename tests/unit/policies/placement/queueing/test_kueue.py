"""What is asked of Kueue, given back and let go, by tables and by random answers of a queue."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.api.names import Phase, Reason, SuspendedBy
from spotrun.policies.budget.spend.job_policies import must_ask
from spotrun.state.actions import (
    AcceptEviction,
    Action,
    AskQueue,
    Create,
    FinishRequest,
    LeaveQueue,
    QueueAction,
    Remove,
    ReturnQuota,
    TellReady,
)
from spotrun.state.queue import Queue, Workload
from spotrun.state.snapshot import SpendVerdict
from tests.support.jobs.builders import ON_CLAIM, JobBuilder, a_job, an_end, later


def waiting(number: int = 0, count: int = 1, least: int | None = None, **facts: Any) -> Workload:
    return Workload(f"w-{number}", f"uid-{number}", "1", number, count, least, **facts)


def admitted(number: int, count: int, **facts: Any) -> Workload:
    known: dict[str, Any] = {"is_reserved": True, "is_admitted": True, "admitted": count, **facts}
    return waiting(number, count, **known)


def evicted(number: int, count: int, **facts: Any) -> Workload:
    return admitted(number, count, evicted="Preempted", **facts)


def queued(job: JobBuilder, *requests: Workload, **queue: Any) -> JobBuilder:
    known: dict[str, Any] = {"api_version": "v1beta2", **queue}
    return job.with_facts(queue=Queue("team", requests=requests, **known))


def asked(job: JobBuilder) -> list[Action]:
    """Return what is done about the queue, but for what is only told."""
    actions = job.decide().actions
    told = (one for one in actions if isinstance(one, QueueAction))
    return [one for one in told if not isinstance(one, TellReady)]


FIVE = admitted(0, 5)
FOUR, TWO = admitted(0, 4), admitted(1, 2)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        pytest.param(queued(a_job(4, min=2)), [AskQueue(0, 4, 2)], id="a new job asks for all"),
        pytest.param(queued(a_job(4, min=4)), [AskQueue(0, 4)], id="or for nothing less"),
        pytest.param(
            queued(a_job(4, min=2), waiting(0, 4, 2)), [], id="who has asked asks no second time"
        ),
        pytest.param(
            queued(a_job(6, min=2), waiting(0, 4, 2)),
            [AskQueue(0, 6, 2, waiting(0, 4, 2))],
            id="but for another number",
        ),
        pytest.param(
            queued(a_job(2, min=2), waiting(0, 2, asks_as_now=False)),
            [AskQueue(0, 2, None, waiting(0, 2, asks_as_now=False))],
            id="or for other workers",
        ),
        pytest.param(
            queued(a_job(6, min=2).training(0, 1, 2, 3), FOUR),
            [AskQueue(1, 2, 1)],
            id="growth asks for the difference",
        ),
        pytest.param(
            queued(a_job(8, sizes=[2, 4, 8]).training(0, 1, 2, 3), FOUR),
            [AskQueue(1, 4)],
            id="up to a size that is allowed",
        ),
        pytest.param(
            queued(a_job(6, min=2).training(0, 1, 2, 3), admitted(0, 4), waiting(1, 2, 1)),
            [],
            id="growth is asked for once",
        ),
        pytest.param(
            queued(a_job(4, min=2).training(0, 1, 2, 3), FOUR, waiting(1, 2, 1)),
            [LeaveQueue(waiting(1, 2, 1))],
            id="and not if it is not wanted any more",
        ),
        pytest.param(
            queued(a_job(3, min=2, max=8).training(0, 1, 2), FIVE),
            [ReturnQuota(FIVE, 2)],
            id="what is not wanted is given back",
        ),
        pytest.param(
            queued(a_job(3, min=2, max=8).training(0, 1, 2), FOUR, TWO),
            [LeaveQueue(TWO), ReturnQuota(FOUR, 1)],
            id="the newest request first",
        ),
        pytest.param(
            queued(a_job(3, min=2, max=8).training(0, 1, 2, 3, 4), FIVE),
            [],
            id="but none for which there is a pod",
        ),
        pytest.param(
            queued(a_job(2).training(0, 1), admitted(0, 2, asks_as_now=False)),
            [],
            id="a template that changes keeps its quota while there are pods",
        ),
        pytest.param(
            queued(a_job(2), admitted(0, 2, asks_as_now=False)),
            [LeaveQueue(admitted(0, 2, asks_as_now=False))],
            id="and asks anew without",
        ),
        pytest.param(
            queued(a_job(2).training(0, 1), evicted(0, 2)),
            [],
            id="an eviction is not accepted while there are pods",
        ),
        pytest.param(
            queued(a_job(2), evicted(0, 2)),
            [AcceptEviction(evicted(0, 2))],
            id="but without",
        ),
        pytest.param(
            queued(a_job(6, min=2).training(0, 1, 2, 3), FOUR, evicted(1, 2)),
            [AcceptEviction(evicted(1, 2))],
            id="or with those that another request holds",
        ),
        pytest.param(
            queued(a_job(6, min=3), waiting(0, 4, 3, evicted="Preempted"), TWO),
            [LeaveQueue(TWO), AskQueue(0, 6, 3, waiting(0, 4, 3, evicted="Preempted"))],
            id="a rest that makes no world is not kept",
        ),
        pytest.param(
            queued(a_job(2), waiting(0, 2, is_reserved=True)),
            [],
            id="who is still checked by Kueue waits",
        ),
        pytest.param(
            queued(a_job(2, min=2), waiting(0, 2, is_active=False)),
            [],
            id="nobody gets round an admin",
        ),
        pytest.param(
            queued(a_job(2, suspend=True), FIVE), [LeaveQueue(FIVE)], id="who is suspended leaves"
        ),
        pytest.param(
            queued(a_job(2, suspend=True).training(0, 1), FIVE), [], id="once its workers have"
        ),
        pytest.param(queued(a_job(2), priority_class="high"), [], id="a class has to be there"),
        pytest.param(
            queued(a_job(2), waiting(0, 2), priority_class="high", priority=9),
            [AskQueue(0, 2, 1, waiting(0, 2))],
            id="and its value counts",
        ),
        pytest.param(queued(a_job(2), api_version=""), [], id="nobody is asked without Kueue"),
    ],
)
def test_what_is_asked_of_the_queue(job: JobBuilder, expected: list[Action]) -> None:
    assert asked(job) == expected


def test_a_job_makes_no_workers_before_its_queue_admits_them_and_no_more_than_that() -> None:
    job = a_job(4, min=2)
    waits = queued(job, waiting(0, 4, 2, words="insufficient quota"))
    status = waits.decide().status
    assert status.suspended_by == (SuspendedBy.QUEUE,)
    assert (status.phase, status.reason) == (Phase.SUSPENDED, "Queued")
    assert status.message == "Queue: the job waits in queue team: insufficient quota"
    assert not _made(waits)
    goes_on = queued(job.with_state(status), admitted(0, 3))
    assert len(_made(goes_on)) == 3
    assert goes_on.decide().status.suspended_by is None


def test_a_worker_that_leaves_is_replaced_beside_it_only_where_the_quota_holds_both() -> None:
    job = a_job(2).training(0, 1).with_worker(1, ready=True, arrived=1, leaves_in=60)
    assert len(_made(job)) == 1
    assert _made(queued(job, admitted(0, 2))) == []
    assert len(_made(queued(job, admitted(0, 3)))) == 1


def test_an_evicted_job_saves_a_checkpoint_before_its_workers_go() -> None:
    job = queued(a_job(2, checkpoint=ON_CLAIM).training(0, 1), evicted(0, 2))
    decision = job.decide()
    status = decision.status
    assert (status.phase, status.reason) == (Phase.SUSPENDED, Reason.EVICTED_BY_QUEUE.value)
    assert "a job that comes first needs it" in (status.message or "")
    assert status.orders.checkpoint == 1
    assert decision.actions == ()
    saved = job.with_state(status)
    for worker_id in (0, 1):
        saved = saved.with_worker(worker_id, ready=True, arrived=1, committed="step-9.g1")
    removed = saved.decide(later(3)).actions
    assert [type(one) for one in removed] == [Remove, Remove]
    assert {one.reason for one in removed if isinstance(one, Remove)} == {Reason.EVICTED_BY_QUEUE}


def test_a_job_whose_growth_is_taken_shrinks_and_goes_on() -> None:
    job = queued(a_job(4, min=2).training(0, 1, 2, 3), admitted(0, 2), evicted(1, 2))
    decision = job.decide()
    assert decision.status.suspended_by is None
    assert decision.status.world.number == 2
    assert len(decision.status.world.members) == 2


def test_a_finished_job_says_so_once_its_pods_are_gone() -> None:
    ended = a_job(1).training(0).with_status(phase=Phase.SUCCEEDED, message="all steps")
    assert asked(queued(ended, admitted(0, 1))) == []
    over = ended.with_worker(0, **an_end())
    assert asked(queued(over, admitted(0, 1))) == [FinishRequest(admitted(0, 1), True, "all steps")]
    assert asked(queued(over, admitted(0, 1, is_finished=True))) == []


def _made(job: JobBuilder) -> list[Create]:
    """Return the workers that are made now, by the status that is stored before."""
    stored = job.with_state(job.decide().status)
    return [one for one in stored.decide().actions if isinstance(one, Create)]


REQUESTS = st.builds(
    lambda count, answer: (count, answer),
    st.integers(1, 6),
    st.sampled_from(["waiting", "reserved", "admitted", "evicted", "inactive"]),
)


@settings(max_examples=150)
@given(
    st.lists(REQUESTS, max_size=3),
    st.integers(1, 8),
    st.integers(1, 4),
    st.integers(0, 6),
)
def test_whatever_a_queue_answers_pods_and_quota_given_back_never_pass_what_it_admitted(
    answers: list[tuple[int, str]], wanted: int, least: int, pods: int
) -> None:
    requests = tuple(_answered(number, *one) for number, one in enumerate(answers))
    job = queued(a_job(max(wanted, least), min=least, max=8), *requests)
    if pods:
        job = job.training(*range(pods))
    usable = sum(one.workers for one in requests)
    actions = job.with_state(job.decide().status).decide().actions
    made = sum(isinstance(one, Create) for one in actions)
    assert made == 0 or pods + made <= usable
    returned = sum(_returned(one) for one in actions)
    assert returned == 0 or pods <= usable - returned
    assert sum(isinstance(one, AskQueue) for one in actions) <= 1


def _answered(number: int, count: int, answer: str) -> Workload:
    if answer == "waiting":
        return waiting(number, count)
    one = replace(admitted(number, count), is_admitted=answer != "reserved")
    evicted_by = "Preempted" if answer == "evicted" else ""
    return replace(one, evicted=evicted_by, is_active=answer != "inactive")


def _returned(action: Action) -> int:
    match action:
        case LeaveQueue(request=one):
            return one.workers
        case ReturnQuota(request=one, count=count):
            return count - one.given_back
        case _:
            return 0


def test_a_job_that_a_spend_limit_holds_keeps_no_quota_from_others() -> None:
    """Kueue has admitted it, and then there was too little money for its smallest piece."""
    held = queued(a_job(4, min=4), FOUR).with_facts(
        spend=SpendVerdict("SpendLimit team: too little")
    )
    decision = held.decide()
    assert decision.status.suspended_by == (SuspendedBy.SPEND_LIMIT,)
    assert [one for one in decision.actions if isinstance(one, QueueAction)] == [LeaveQueue(FOUR)]
    gone = queued(held.with_state(decision.status))
    assert asked(gone) == [], "it asks the queue when there is money"
    again = gone.with_facts(spend=SpendVerdict(is_granted=True))
    assert asked(again) == [AskQueue(0, 4)]
    waits = queued(again.with_state(again.decide().status), waiting(0, 4))
    assert waits.decide().status.suspended_by == (SuspendedBy.QUEUE,)


def test_a_job_asks_for_money_when_its_queue_has_admitted_it_and_not_before() -> None:
    unasked = SpendVerdict()
    waits = queued(a_job(4, min=4), waiting(0, 4)).with_facts(spend=unasked)
    assert not must_ask(waits.snapshot(), waits.decide().status)
    let_in = queued(a_job(4, min=4), FOUR).with_facts(spend=unasked)
    assert must_ask(let_in.snapshot(), let_in.decide().status)
