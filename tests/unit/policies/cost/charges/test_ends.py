"""Until when a lost worker is charged: each kind of loss, each fate of its node, each job.

Two workers cost $1 an hour each. The second is lost; what is shown then, and after each thing that
is found out later, is the rule of "How cost is computed".
"""

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.api.names import Phase, Reason
from spotrun.policies.cost.charges.ends import MOST_ENDS, latest_ends
from spotrun.state.actions import Announce, Decision
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Node, PodEnd, PodPhase
from spotrun.state.stored.cost import Accumulators
from spotrun.wire import Ending, Progress
from tests.support.jobs.builders import NOW, JobBuilder, a_job, ago, an_end, later
from tests.support.jobs.stored_state import cost_of, read_text, text_of
from tests.support.money.priced_nodes import a_node, at_work

DUE = {"written_seconds": 600.0}
SILENT = 45.0  # seconds in which nothing was heard when Kubernetes calls a node unreachable
WELL = a_node("b")
NOT_READY = a_node("b", ready=False)  # its kubelet says so
UNREACHABLE = a_node("b", ready=False, unreachable_at=NOW)
BACK = a_node("b", ready_at=later(3600))
TAINTED = {"deleting": True, "killed_at": later(300), "disrupted": "DeletionByTaintManager"}
FORCED = {"deleting": True, "killed_at": NOW, "is_forced": True}
DRAINED = {"deleting": True, "killed_at": NOW, "disrupted": "EvictionByEvictionAPI"}
SHUT_DOWN = {
    "phase": PodPhase.FAILED,
    "ended_at": NOW,
    "end": PodEnd(143, "Error", "Terminated", "Pod was terminated: imminent node shutdown."),
}
GUESSED = {  # after a reboot: the runtime found it ended
    "phase": PodPhase.FAILED,
    "ended_at": later(3650),
    "end_is_guessed": True,
    "end": PodEnd(255, "Unknown"),
}
LATER_TOLD = {"phase": PodPhase.FAILED, "ended_at": later(1800), "end": PodEnd(143, "Error")}


def a_trained_job(phase: str) -> JobBuilder:
    """Both train, or did so until the job was over or held back."""
    job = at_work(a_job(2, min=1, suspend=phase == "suspended").with_facts(**DUE), 0, ready=True)
    job = job.training(0, 1).with_status(next_worker_id=2, lost=frozenset({1}))
    return job.with_status(phase=Phase.SUCCEEDED) if phase == "finished" else job


def looked_at(before: JobState, job_phase: str, now: datetime, node: Node, **pod: Any) -> JobState:
    """What is said at a moment of a job whose second worker is on that node."""
    job = a_trained_job(job_phase).with_state(before)
    heard = {"ready": True, "heard": SILENT + (now - NOW).total_seconds(), **pod}
    first: dict[str, Any] = {"ready": True, "arrived": 1}
    if job_phase != "running":
        first = {"phase": PodPhase.SUCCEEDED, "ended_at": NOW, "end": PodEnd(0)}
    job = at_work(at_work(job, 0, node=a_node("a"), **first), 1, node=node, **heard)
    return job.decide(now).status


def start(phase: str) -> JobState:
    return a_trained_job(phase).status


@dataclass(frozen=True)
class Case:
    """How the second worker was lost, and what its node shows at once and an hour later."""

    node: Node
    pod: dict[str, Any]
    is_charged: bool  # at once: whether its charge goes on
    then: Node
    then_pod: dict[str, Any]
    usd: str  # of the second worker an hour later


_LATER = replace(UNREACHABLE, unreachable_at=later(1800))
_TAKEN = {"phase": PodPhase.FAILED, "disrupted": "DeletionByPodGC", "disrupted_at": later(3000)}
_EVICTED = {**DRAINED, "killed_at": None, "disrupted_at": later(1800), "heard": 900.0}
_GONE = replace(UNREACHABLE, gone=True, gone_at=later(3600))
_UNSEEN = replace(a_node("b", None, gone=True, ready=False), allocatable=None)
CASES = {
    "silent on a node that is well: it runs": Case(WELL, {}, True, WELL, {}, "2"),
    "silent, and its end is told later": Case(WELL, {}, True, WELL, LATER_TOLD, "1.5"),
    "its node is not ready, but its kubelet speaks": Case(NOT_READY, {}, True, NOT_READY, {}, "2"),
    "its node is unreachable, and stays": Case(UNREACHABLE, {}, False, UNREACHABLE, {}, "1"),
    "and is removed": Case(UNREACHABLE, {}, False, _GONE, {}, "1"),
    "and is removed while no operator looks": Case(UNREACHABLE, {}, False, _UNSEEN, {}, "1"),
    "and is removed, and its pod with it": Case(
        UNREACHABLE,
        {},
        False,
        _GONE,
        {"phase": PodPhase.FAILED, "disrupted": "DeletionByPodGC", "disrupted_at": later(3600)},
        "1",
    ),
    "and comes back, and the worker had run on": Case(
        UNREACHABLE, {}, False, replace(BACK, ready_at=later(3500)), {}, "2"
    ),
    "and comes back just now, and nothing is known": Case(UNREACHABLE, {}, False, BACK, {}, "1"),
    "and is silent on, but the worker calls": Case(
        UNREACHABLE, {}, False, UNREACHABLE, {"heard": 0.5}, "2"
    ),
    "and comes back, and tells the end": Case(UNREACHABLE, {}, False, BACK, LATER_TOLD, "1.5"),
    "and comes back after a reboot": Case(UNREACHABLE, {}, False, BACK, GUESSED, "1"),
    "removed by the taint manager": Case(UNREACHABLE, TAINTED, False, UNREACHABLE, TAINTED, "1"),
    "force-deleted": Case(UNREACHABLE, FORCED, False, UNREACHABLE, FORCED, "1"),
    "force-deleted, and its node is removed": Case(UNREACHABLE, FORCED, False, _GONE, FORCED, "1"),
    "force-deleted where its kubelet is well": Case(WELL, FORCED, True, WELL, LATER_TOLD, "1.5"),
    "drained, and cut off while it ended": Case(
        UNREACHABLE, DRAINED, False, UNREACHABLE, DRAINED, "1"
    ),
    "drained, and heard until its node was gone": Case(
        WELL, {}, True, replace(WELL, gone=True, gone_at=later(3600)), _EVICTED, "1.75"
    ),
    "shut down without a word": Case(NOT_READY, {}, True, _LATER, {}, "1.5"),
    "declared dead by hand while no operator looked": Case(WELL, {}, True, _LATER, _TAKEN, "1.5"),
    "shut down, and its end was told": Case(
        NOT_READY, SHUT_DOWN, False, UNREACHABLE, SHUT_DOWN, "1"
    ),
}


@pytest.mark.parametrize("phase", ["running", "finished", "suspended"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_lost_worker_is_charged_until_it_was_last_known_to_run(case: Case, phase: str) -> None:
    first = "2" if phase == "running" else "1"  # of the first worker, which runs on or has ended
    at_once = looked_at(start(phase), phase, later(1), case.node, **case.pod)
    hour = looked_at(at_once, phase, later(3600), case.then, **case.then_pod)
    rate = Decimal(phase == "running") + Decimal(case.is_charged)
    assert Decimal(cost_of(at_once).usd_per_hour or 0) == rate
    assert Decimal(cost_of(hour).usd or 0) == Decimal(first) + Decimal(case.usd)


@pytest.mark.parametrize("phase", ["running", "finished", "suspended"])
def test_a_later_finding_is_shown_as_a_correction(phase: str) -> None:
    lost = looked_at(start(phase), phase, later(1), UNREACHABLE)
    still = looked_at(lost, phase, later(1800), UNREACHABLE)
    reported = looked_at(still, phase, later(3600), BACK, **LATER_TOLD)
    shown = [cost_of(status).corrected_usd for status in (lost, still, reported)]
    assert shown == [None, None, "0.5"]


def test_a_correction_of_a_cent_or_more_is_an_event() -> None:
    lost = looked_at(start("finished"), "finished", later(1), UNREACHABLE)
    job = a_trained_job("finished").with_state(lost)
    over = {"phase": PodPhase.SUCCEEDED, "ended_at": NOW, "end": PodEnd(0)}
    job = at_work(at_work(job, 0, node=a_node("a"), **over), 1, node=BACK, **LATER_TOLD)
    said = [one for one in job.decide(later(3600)).announcements if one.reason != "Completed"]
    words = "the cost shown is corrected by $0.50 to $2.50: workers had run on while their nodes "
    assert said == [Announce(Reason.COST_CORRECTED, words + "sent nothing")]


def test_that_an_end_is_told_a_moment_late_is_no_news() -> None:
    late = {"phase": PodPhase.FAILED, "ended_at": ago(2), "end": PodEnd(143, "Error")}
    dear = a_node("b", "1000")
    job = at_work(a_trained_job("running"), 0, node=a_node("a"), ready=True, arrived=1)
    before = at_work(job, 1, node=dear).decide(later(1))
    after = at_work(job.with_state(before.status), 1, node=dear, **late).decide(later(2))
    corrected = cost_of(after.status).corrected_usd
    assert corrected is not None
    assert Decimal(corrected) < Decimal("-0.1")
    assert [one for one in after.announcements if one.reason == Reason.COST_CORRECTED] == []


STEPS = {ago(600): 100, NOW: 160}


def a_published_job(before: JobState, now: datetime, node: Node, **pod: Any) -> Decision:
    """The first worker says that it is complete after 200 of 200 steps; the second is lost."""
    step = STEPS.get(now, 200)
    reported = Progress(1, step, 200, samples=step * 32, epoch_samples=1600, step_seconds=10.0)
    budget = {"maxCostUsd": "10", "onExceeded": "Warn"}
    job = a_job(2, min=1, budget=budget).with_facts(**DUE).with_state(before)
    first: dict[str, Any] = {"ready": True, "arrived": 1, "progress": reported}
    if now == later(1):
        first |= {"completed": True, "ended_at": later(1), **an_end(Ending.COMPLETED)}
    if now <= later(1):  # later its pod is gone, and what it told with it
        job = at_work(job, 0, node=a_node("a"), **first)
    heard = SILENT + (now - NOW).total_seconds() if now >= NOW else 0.0
    job = at_work(job, 1, node=node, **{"ready": True, "heard": heard, "arrived": 1, **pod})
    return job.decide(now)


def a_finished_job() -> Decision:
    status = a_job(2).training(0, 1).with_world("0,1", formed=2000.0, store="x:1").status
    status = a_published_job(status, ago(600), WELL).status
    status = a_published_job(status, NOW, UNREACHABLE).status
    return a_published_job(status, later(1), UNREACHABLE)


@pytest.mark.parametrize(
    ("ended_at", "usd", "percent", "correction"),
    [
        pytest.param(later(1800), "2.5003", "25%", "0.5", id="it had run on"),
        pytest.param(ago(360), "1.9003", "19%", "-0.1", id="it had ended before"),
    ],
)
def test_all_that_is_said_of_a_cost_follows_its_correction(
    ended_at: datetime, usd: str, percent: str, correction: str
) -> None:
    finished = a_finished_job().status
    end = {**LATER_TOLD, "ended_at": ended_at}
    reported = a_published_job(finished, later(3600), BACK, **end).status
    before, after = cost_of(finished), cost_of(reported)
    assert (finished.phase, reported.phase) == (Phase.SUCCEEDED, Phase.SUCCEEDED)
    assert (before.usd, after.usd, after.corrected_usd) == ("2.0003", usd, correction)
    assert (before.forecast_usd, after.forecast_usd) == (before.usd, after.usd)
    assert (before.budget_used_percent, after.budget_used_percent) == ("20%", percent)
    for cost in (before, after):
        units = (
            (cost.usd_per_step, 200),
            (cost.usd_per_epoch, 4),
            (cost.usd_per_million_samples, Decimal("0.0064")),
        )
        for unit_usd, number in units:
            said = Decimal(unit_usd or 0) * number
            assert abs(said - Decimal(cost.usd or 0)) < Decimal("0.0001")


def test_the_last_word_on_a_finished_job_waits_for_no_node_that_is_never_removed() -> None:
    finished = a_finished_job()
    said = [one.message for one in finished.announcements if one.reason == Reason.COMPLETED]
    assert said == [
        "the job has cost $2.00 in all; its useful work on demand: $1.11; saved: -$0.89"
    ]
    after = a_published_job(finished.status, later(3600), UNREACHABLE)
    assert after.announcements == ()
    assert after.status.cost == finished.status.cost


_NODES = (WELL, NOT_READY, UNREACHABLE, BACK, replace(BACK, ready_at=later(60)), _GONE, _UNSEEN)
_PODS: tuple[dict[str, Any], ...] = ({}, TAINTED, FORCED, SHUT_DOWN, GUESSED, LATER_TOLD)
looks = st.lists(
    st.tuples(
        st.integers(0, 7200),
        st.sampled_from(_NODES),
        st.sampled_from(_PODS),
        st.sampled_from([None, 0.5, 20.0]),
    ),
    min_size=1,
    max_size=8,
)


@settings(deadline=None)
@given(looks, st.sampled_from(["running", "finished", "suspended"]))
def test_what_is_shown_less_its_corrections_never_falls(
    seen: list[tuple[int, Node, dict[str, Any], float | None]], phase: str
) -> None:
    status, shown = start(phase), Decimal(0)
    for seconds, node, pod, heard in sorted(seen, key=lambda one: one[0]):
        said = {} if heard is None else {"heard": heard}
        status = looked_at(status, phase, later(seconds), node, **pod, **said)
        cost = cost_of(status)
        uncorrected = Decimal(cost.usd or 0) - Decimal(cost.corrected_usd or 0)
        assert uncorrected >= shown
        shown = uncorrected


@pytest.mark.parametrize("num_moments", [1, 100, 10_000])
def test_the_noted_ends_of_the_largest_job_are_few_bytes(num_moments: int) -> None:
    ends = {100_000 + 7 * n: later(n % num_moments) for n in range(10_000)}
    text = text_of(JobState(accumulators=Accumulators(ends=latest_ends(ends))))
    assert len(text) < 110_000
    read = read_text(text).accumulators.ends
    assert {worker_id: ends[worker_id] for worker_id in read} == read
    assert len(read) == (10_000 if num_moments < MOST_ENDS else MOST_ENDS)
