"""Workers that are paid and do next to nothing."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType, Phase, Reason, SuspendedBy
from spotrun.money.shares import Resources
from spotrun.policies.report.events import announcements
from spotrun.policies.scaling.idle import IDLE_SECONDS, hold_idle
from spotrun.state.actions import Remove
from spotrun.state.conditions import find
from spotrun.state.stored.statements import Condition
from spotrun.state.view import View
from spotrun.wire import Progress, Utilization
from tests.support.jobs.builders import ON_CLAIM, JobBuilder, a_job, later

IDLE = Utilization(gpu=0.5, cpu=0.01)
BUSY = Utilization(gpu=0.0, cpu=0.5)
REQUESTED = Resources(cpu=Decimal(1))


def a_training(*used: Utilization, **worker: Any) -> JobBuilder:
    """With a world whose workers use so much."""
    pods = {"requests": REQUESTED, **worker}
    job = a_job(len(used)).training(*range(len(used)), **pods)
    for worker_id, utilization in enumerate(used):
        known = job.workers[worker_id]
        assert known.agent is not None
        report = replace(known.agent.report, utilization=utilization)
        agent = replace(known.agent, report=report)
        job = replace(job, workers={**job.workers, worker_id: replace(known, agent=agent)})
    return job


def an_idle_job(**spec: Any) -> JobBuilder:
    """Two workers that have used nothing for a quarter of an hour, as its condition says."""
    asked = {"checkpoint": ON_CLAIM, "idle": {"suspendAfter": "2h"}, **spec}
    job, _ = idleness(a_training(IDLE, IDLE).with_spec(2, **asked))
    return idleness(job, IDLE_SECONDS)[0]


def idleness(job: JobBuilder, seconds: float = 0.0) -> tuple[JobBuilder, Condition | None]:
    """The job after a look, and what is said of its idleness."""
    after = replace(job, status=job.decide(later(seconds)).status)
    return after, find(after.status, ConditionType.IDLE)


def test_a_job_at_work_says_nothing_of_it() -> None:
    assert idleness(a_training(BUSY, BUSY))[1] is None


def test_who_tells_nothing_is_not_called_idle() -> None:
    assert idleness(a_training(Utilization(), Utilization()))[1] is None


def test_of_who_tells_nothing_the_pods_cpu_counts_where_it_is_known() -> None:
    job = a_training(Utilization(), Utilization())
    for used, is_idle in ((0.01, True), (0.5, False)):
        workers = {n: replace(w, used=Utilization(cpu=used)) for n, w in job.workers.items()}
        assert (idleness(replace(job, workers=workers))[1] is not None) is is_idle


def test_of_workers_with_gpus_these_count() -> None:
    """The data loaders are busy, and somebody forgot to move the model."""
    job = a_training(BUSY, BUSY).with_facts(requests=Resources(gpus=1))
    assert idleness(job)[1] is not None
    job = a_training(IDLE, IDLE).with_facts(requests=Resources(gpus=1))
    assert idleness(job)[1] is None


def test_the_cpu_of_a_pod_says_nothing_of_its_gpus() -> None:
    job = a_training(BUSY, BUSY).with_facts(requests=Resources(gpus=1))
    for gpu, is_idle in ((0.01, True), (0.5, False), (None, False)):
        told = a_training(*[Utilization(gpu=gpu)] * 2).workers
        workers = {n: replace(w, used=Utilization(cpu=0.0)) for n, w in told.items()}
        assert (idleness(replace(job, workers=workers))[1] is not None) is is_idle


def test_a_share_of_a_whole_machine_says_nothing_of_a_worker_that_requests_none_of_it() -> None:
    assert idleness(a_training(IDLE, IDLE, requests=Resources()))[1] is None


def test_one_that_works_is_enough() -> None:
    assert idleness(a_training(IDLE, BUSY))[1] is None


def test_it_is_said_after_a_while_and_told_once() -> None:
    job, said = idleness(a_training(IDLE, IDLE))
    assert said is not None
    assert said.status is ConditionStatus.UNKNOWN
    assert job.decide().wake_after_seconds <= IDLE_SECONDS
    job, said = idleness(job, IDLE_SECONDS - 1)
    assert said is not None
    assert said.status is ConditionStatus.UNKNOWN
    before = job.status
    job, said = idleness(job, IDLE_SECONDS)
    assert said is not None
    assert (said.status, str(said.reason)) == (ConditionStatus.TRUE, Reason.NOTHING_USED.value)
    assert said.message.startswith("for 15 min 2 workers have used less than 5% of their GPUs")
    reported = [
        one for one in announcements(before, job.status) if one.reason is Reason.NOTHING_USED
    ]
    assert [(one.is_warning, one.message) for one in reported] == [(True, said.message)]
    after = job.decide(later(IDLE_SECONDS + 60)).status
    assert find(after, ConditionType.IDLE) == said


def test_work_begins_again_and_with_it_the_clock() -> None:
    job, _ = idleness(a_training(IDLE))
    busy, said = idleness(replace(job, workers=a_training(BUSY).workers), 600)
    assert said is not None
    assert said.status is ConditionStatus.FALSE
    _, said = idleness(replace(busy, workers=job.workers), 660)
    assert said is not None
    assert said.status is ConditionStatus.UNKNOWN


def test_no_progress_for_far_longer_than_a_step_is_idle_too() -> None:
    stuck = a_training(BUSY, progress=Progress(1, 100, step_seconds=2.0), progress_for=IDLE_SECONDS)
    _, said = idleness(stuck)
    assert said is not None
    assert said.status is ConditionStatus.TRUE
    assert said.message.startswith("for 15 min no worker has made a step beyond step 100: look")
    slow = a_training(BUSY, progress=Progress(1, 100, step_seconds=900.0), progress_for=1800.0)
    assert idleness(slow)[1] is None


def test_while_nobody_trains_nobody_is_idle() -> None:
    assert idleness(a_job(1).with_worker(0, ready=True))[1] is None


def test_a_job_that_says_nothing_of_it_is_never_suspended_for_idleness() -> None:
    job = an_idle_job(idle=None)
    decision = job.decide(later(30 * 86400))
    assert decision.status.suspended_by is None
    assert decision.wake_after_seconds > 0


def test_after_suspend_after_a_checkpoint_is_ordered_and_the_job_is_held_back() -> None:
    job = an_idle_job()
    assert job.decide(later(7199)).status.suspended_by is None
    assert job.decide(later(7190)).wake_after_seconds <= 10
    decision = job.decide(later(7200))
    held = decision.status
    assert (held.suspended_by, held.phase, held.reason) == (
        (SuspendedBy.IDLE,),
        Phase.SUSPENDED,
        Reason.IDLE.value,
    )
    assert held.orders.checkpoint == 1
    assert [action for action in decision.actions if isinstance(action, Remove)] == []
    after = replace(job, status=held).decide(later(7200 + 111))
    assert sorted(one.worker_id for one in after.actions if isinstance(one, Remove)) == [0, 1]


def test_it_says_what_was_found_and_how_to_go_on_in_message_condition_and_event() -> None:
    job = an_idle_job()
    held = job.decide(later(7200)).status
    words = (
        "for 15 min 2 workers have used less than 5% of their GPUs, or of the CPU they request; "
        "that has lasted for 2h: to continue, set spec.suspend to true, and then to false"
    )
    assert held.message == f"Idle: {words}; 2 workers are still there"
    found = find(held, ConditionType.IDLE)
    assert found is not None
    assert (found.status, found.message) == (ConditionStatus.TRUE, words)
    reported = [one for one in announcements(job.status, held) if one.reason is Reason.IDLE]
    assert [(one.is_warning, one.message) for one in reported] == [(True, f"Idle: {words}")]


def test_it_stays_suspended_until_somebody_has_suspended_it_and_let_it_go_on() -> None:
    job = an_idle_job()
    job = replace(job, status=job.decide(later(7200)).status, workers={})
    much_later = job.decide(later(30 * 86400)).status
    assert much_later.suspended_by == (SuspendedBy.IDLE,)
    assert find(much_later, ConditionType.IDLE) == find(job.status, ConditionType.IDLE)
    idle = {"checkpoint": ON_CLAIM, "idle": {"suspendAfter": "2h"}}
    taken = job.with_spec(2, suspend=True, **idle)
    taken = replace(taken, status=taken.decide(later(9000)).status)
    assert taken.status.suspended_by == (SuspendedBy.USER,)
    assert taken.with_spec(2, **idle).decide(later(9060)).status.suspended_by is None


def test_it_goes_on_when_its_spec_says_no_more_of_idleness() -> None:
    job = an_idle_job()
    job = replace(job, status=job.decide(later(7200)).status, workers={})
    assert job.with_spec(2, checkpoint=ON_CLAIM).decide(later(9000)).status.suspended_by is None


def test_who_works_once_in_a_while_is_not_suspended() -> None:
    job = an_idle_job()
    busy, _ = idleness(replace(job, workers=a_training(BUSY, BUSY).workers), 7000)
    again, _ = idleness(replace(busy, workers=job.workers), 7060)
    assert again.decide(later(7200)).status.suspended_by is None


def test_what_was_said_of_a_job_that_nobody_looked_at_for_long_suspends_it_only_if_it_holds() -> (
    None
):
    job = an_idle_job()
    busy = replace(job, workers=a_training(BUSY, BUSY).workers)
    unheard = replace(job, workers={n: replace(w, agent=None) for n, w in job.workers.items()})
    suspended = [one.decide(later(9000)).status.suspended_by for one in (busy, unheard, job)]
    assert suspended == [None, None, (SuspendedBy.IDLE,)]


def test_an_operator_that_has_heard_nobody_yet_keeps_what_was_found() -> None:
    job = an_idle_job()
    unheard = replace(job, workers={n: replace(w, agent=None) for n, w in job.workers.items()})
    found, begun = find(job.status, ConditionType.IDLE), unheard.decide(later(IDLE_SECONDS))
    assert find(begun.status, ConditionType.IDLE) == found


def test_a_clock_that_may_be_wrong_suspends_nobody() -> None:
    job = an_idle_job()
    view = job.view(later(9000))
    unsure = View(replace(view.job, is_time_sure=False), view.now)
    assert hold_idle(view, job.status).suspended_by == (SuspendedBy.IDLE,)
    assert hold_idle(unsure, job.status).suspended_by is None
