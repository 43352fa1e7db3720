from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.api.status import MOST_TRIED_SIZES
from spotrun.policies.failures.fixed_size import (
    after_failed_start,
    after_steps,
    is_on_probation,
    is_refusal,
)
from spotrun.state.conditions import find
from spotrun.state.sizes import allowed
from spotrun.state.snapshot import Node
from spotrun.state.stored.failures import NO_SIZES, Restarts, TriedSizes
from spotrun.state.view import View
from spotrun.wire import Failure
from tests.support.jobs.builders import NOW, TEMPLATE, JobBuilder, a_job, ago, later
from tests.support.jobs.stepping_jobs import stepping

REFUSAL = "rank 0 ended with exit code 1: ValueError: num_nodes=3, but {} nodes joined"
COMPARED = "rank # ended with exit code #: ValueError: num_nodes=#, but # nodes joined"
TRAINED = TriedSizes(trained=(3,), template=TEMPLATE)
SUSPECT = replace(TRAINED, suspect=2, error=COMPARED)
NOTICED = "rank 0 ended with exit code 1: gloo: Connection closed by peer"


@pytest.mark.parametrize(
    ("known", "size", "message", "after"),
    [
        (NO_SIZES, 2, "boom", NO_SIZES),
        (TriedSizes((3,)), 3, "boom", TriedSizes((3,))),
        (TriedSizes((2, 3)), 2, "boom", TriedSizes((2, 3))),
        (TriedSizes((3,)), 2, "boom 7", TriedSizes((3,), 2, "boom #")),
        (TriedSizes((3,), 2, "boom #"), 2, "boom 8", TriedSizes((3,), 2, "boom #", 3)),
        (TriedSizes((3,), 2, "boom #"), 2, "other", TriedSizes((3,), 2, "other")),
        (TriedSizes((3,), 2, "boom #"), 1, "boom 7", TriedSizes((3,), 1, "boom #")),
        (TriedSizes((3,), 2, "boom #"), 3, "boom 7", TriedSizes((3,))),
        (TriedSizes((3,), 2, "b", 3), 3, "b", TriedSizes((3,), 2, "b", 3)),
        (TriedSizes((3,), 2, "boom #"), 0, "boom 7", TriedSizes((3,), 2, "boom #")),
    ],
    ids=[
        "it never trained at all",
        "it trained at this size",
        "it trained at this size before",
        "the first time",
        "the second time in the same words",
        "in other words",
        "at another size",
        "at the size that trained",
        "one size is refused already",
        "no world stood",
    ],
)  # fmt: skip
def test_a_start_that_fails_at_a_size(
    known: TriedSizes, size: int, message: str, after: TriedSizes
) -> None:
    assert after_failed_start(known, size, message) == after


@pytest.mark.parametrize(
    ("message", "is_recognised"),
    [
        ("rank 1 ended with exit code 3: its log says why", False),
        ("rank 1 ended with exit code 3: it printed nothing", False),
        ("rank 1 ended with exit code 3", False),
        ("rank 0 was killed by SIGUSR1", False),
        ("rank 0 was killed by SIGKILL (often: out of memory)", False),
        ("a training process failed; its log says why", False),
        ("exit code 3", False),
        ("rank 0 ended with exit code 1: SystemExit: 1", True),
        ("rank 0 was killed by SIGABRT: Fatal Python error: Aborted", True),
        (REFUSAL, True),
    ],
)
def test_words_that_fit_any_cause_are_no_refusal(message: str, is_recognised: bool) -> None:
    once = after_failed_start(TriedSizes((3,)), 2, message)
    assert is_refusal(once, after_failed_start(once, 2, message)) is is_recognised


@pytest.mark.parametrize(
    ("known", "size", "after"),
    [
        (NO_SIZES, 2, TriedSizes((2,), template="t")),
        (TriedSizes((2, 3)), 2, TriedSizes((3, 2), template="t")),
        (TriedSizes((3,), 2, "boom"), 2, TriedSizes((3, 2), template="t")),
        (TriedSizes((3,), 2, "boom"), 3, TriedSizes((3,), template="t")),
        (TriedSizes((3,), 2, "b", 3, "t"), 3, TriedSizes((3,), 2, "b", 3, "t")),
    ],
)
def test_a_size_that_trains(known: TriedSizes, size: int, after: TriedSizes) -> None:
    assert after_steps(known, size, "t") == after


@given(st.lists(st.tuples(st.integers(1, 60), st.booleans(), st.sampled_from("ab"))))
def test_no_two_sizes_wait_for_each_other(events: list[tuple[int, bool, str]]) -> None:
    """Whatever happens at which sizes: once held the size stays, and it is one that trained."""
    known, held = NO_SIZES, None
    for size, trains, words in events:
        now = held or size  # a job that keeps to a size is started at no other
        before = known
        failed = after_failed_start(known, now, words)
        known = after_steps(known, now, "t") if trains else failed
        held = known.held
        assert before.held is None or held == before.held
        assert held is None or (held in known.trained and held != known.suspect)
        assert len(known.trained) <= MOST_TRIED_SIZES


@given(st.lists(st.integers(1, 4), min_size=20, max_size=40), st.booleans())
def test_a_script_that_fails_everywhere_uses_up_its_restarts(
    sizes: list[int], trained_once: bool
) -> None:
    known = TriedSizes((3,)) if trained_once else NO_SIZES
    failures, most = 0, 3
    for size in sizes:
        before = known
        known = after_failed_start(known, known.held or size, "boom")
        failures = failures - 1 if is_refusal(before, known) else failures + 1
        if failures > most + is_on_probation(known):
            return
    pytest.fail("it is started again for ever")


def failing_at_two(restarts: Restarts, **spec: Any) -> JobBuilder:
    """Return a job that trained with three workers, lost one, and fails to start with two."""
    job = a_job(3, min=1, max=3, **spec).training(0, 1, world_number=5, in_process=False)
    failed = Failure(5, 1, REFUSAL.format(2))
    return failing(job, failed, failed).with_status(restarts=restarts)


def failing(job: JobBuilder, *failures: Failure) -> JobBuilder:
    """Return the job with what its first workers report of the world that trains."""
    for worker_id, one in enumerate(failures):
        job = job.with_worker(worker_id, in_process=False, ready=True, arrived=5, failed=one)
    return job


def test_the_size_at_which_a_plain_script_trains_is_remembered() -> None:
    sizes = stepping().decide().status.restarts.sizes
    assert sizes == TriedSizes((2,), template=TEMPLATE)


def test_with_another_template_workers_of_the_old_one_tell_nothing_of_sizes() -> None:
    known = Restarts(sizes=SUSPECT)
    job = stepping().with_status(restarts=known).with_facts(template="t2")
    assert job.decide().status.restarts.sizes == NO_SIZES


@pytest.mark.parametrize("size", [2, 3])
def test_steps_at_any_size_end_the_suspicion(size: int) -> None:
    before = replace(SUSPECT, suspect=size)
    job = stepping().with_status(restarts=Restarts(sizes=before))
    assert job.decide().status.restarts.sizes == replace(TRAINED, trained=(3, 2))


def test_the_first_failure_at_a_new_size_counts_and_one_more_start_is_granted() -> None:
    job = failing_at_two(Restarts(sizes=TRAINED), failures={"maxRestarts": 0})
    status = job.decide().status
    assert (status.restarts.failures, status.restarts.sizes) == (1, SUSPECT)
    assert job.with_state(status).decide(later(6)).status.phase is not Phase.FAILED


def refused() -> JobBuilder:
    return failing_at_two(BEFORE)


BEFORE = Restarts(
    failures=2, counted_since=ago(30), last_world=4, last_reason="ExitCode",
    blamed=("node-9", "node-0"), sizes=SUSPECT,
)  # fmt: skip


def test_the_same_failure_again_is_no_failure_and_blames_no_node() -> None:
    decision = refused().decide()
    restarts = decision.status.restarts
    assert (restarts.failures, restarts.blamed) == (1, ("node-9",))
    assert restarts.sizes == replace(SUSPECT, held=3, template=TEMPLATE)
    assert restarts.last_reason == Reason.SIZE_REFUSED
    stated = find(decision.status, ConditionType.SIZE_ACCEPTED)
    assert stated is not None
    assert "workers.min = workers.max = 3" in stated.message
    assert REFUSAL.format(2) in stated.message
    reported = [one for one in decision.announcements if one.reason is Reason.SIZE_REFUSED]
    assert len(reported) == 1


def test_the_job_waits_for_its_old_size_and_trains_at_no_other() -> None:
    held = refused().with_state(refused().decide().status)
    waits = held.decide(later(11)).status
    assert waits.world.members == ()
    assert waits.reason == Reason.SIZE_REFUSED
    ready = held.with_state(waits)
    for worker_id in range(3):
        ready = ready.with_worker(worker_id, in_process=False, ready=True)
    world = ready.decide(later(60)).status.world
    assert (world.members, world.is_active) == ((0, 1, 2), True)


@pytest.mark.parametrize("change", ["size", "template"])
def test_another_size_or_template_ends_the_wait(change: str) -> None:
    job = refused().with_state(refused().decide().status)
    by_spec, by_template = job.with_spec(2, min=2, max=2), job.with_facts(template="t2")
    job = by_template if change == "template" else by_spec
    sizes = job.decide(later(11)).status.restarts.sizes
    assert sizes == (NO_SIZES if change == "template" else TRAINED)


def test_a_peer_that_only_noticed_says_nothing_of_sizes() -> None:
    """Connections break in the same words wherever a node is lost, seconds before that is seen."""
    for before in (TRAINED, SUSPECT, replace(SUSPECT, error="rank # noticed")):
        job = failing_at_two(Restarts(sizes=before))
        job = failing(job, Failure(5, 1, NOTICED, follows=True))
        job = job.with_worker(1, in_process=False, ready=True, arrived=5)
        restarts = job.decide().status.restarts
        assert (restarts.failures, restarts.sizes) == (1, before)


def test_a_start_that_the_platform_broke_off_is_forgotten() -> None:
    job = failing_at_two(Restarts(sizes=TRAINED))
    job = job.with_state(job.decide().status)
    assert job.status.restarts.sizes == SUSPECT
    lost = job.with_worker(1, node=Node("n", gone=True)).decide(later(4)).status.restarts
    assert (lost.failures, lost.sizes) == (0, TRAINED)


def test_a_refusal_that_a_lost_node_explains_is_undone() -> None:
    job = refused().with_state(refused().decide().status)
    decision = job.with_worker(1, node=Node("n", gone=True)).decide(later(4))
    restarts = decision.status.restarts
    assert (restarts.failures, restarts.last_reason) == (2, Reason.NODE_LOST)
    assert restarts.sizes == TRAINED
    assert find(decision.status, ConditionType.SIZE_ACCEPTED) is None


def test_a_worker_that_is_too_many_for_the_old_size_undoes_no_refusal() -> None:
    job = refused().with_state(refused().decide().status)
    sent_away = job.with_worker(1, deleting=True).decide(later(4)).status
    assert sent_away.restarts.sizes.held == 3


def test_a_refusal_is_recognised_where_a_peer_tells_of_its_end_first() -> None:
    noticed, raised = Failure(5, 1, NOTICED, follows=True), Failure(5, 1, REFUSAL.format(2))
    job = failing_at_two(BEFORE).with_worker(1, in_process=False, ready=True, arrived=5)
    job = failing(job, noticed)
    first = job.decide().status
    assert (first.restarts.failures, first.restarts.sizes) == (3, SUSPECT)
    both = failing(job.with_state(first), noticed, raised)
    restarts = both.decide(later(1)).status.restarts
    assert (restarts.failures, restarts.blamed) == (1, ("node-9",))
    assert restarts.sizes == replace(SUSPECT, held=3)
    assert restarts.last_reason == Reason.SIZE_REFUSED


def test_a_size_is_suspected_where_a_peer_tells_of_its_end_first() -> None:
    noticed, raised = Failure(5, 1, NOTICED, follows=True), Failure(5, 1, REFUSAL.format(2))
    job = failing_at_two(Restarts(sizes=TRAINED))
    job = job.with_worker(1, in_process=False, ready=True, arrived=5)
    first = failing(job, noticed).decide().status
    both = failing(job.with_state(first), noticed, raised)
    restarts = both.decide(later(1)).status.restarts
    assert (restarts.failures, restarts.sizes) == (1, SUSPECT)


def test_at_the_size_that_trained_failures_count_as_ever() -> None:
    sizes = replace(SUSPECT, held=3, template=TEMPLATE)
    job = a_job(3, min=1, max=3).training(0, 1, 2, world_number=6, in_process=False)
    job = job.with_worker(
        0, in_process=False, ready=True, arrived=6, failed=Failure(6, 1, "boom")
    ).with_status(restarts=Restarts(failures=1, counted_since=ago(30), sizes=sizes))
    restarts = job.decide(NOW).status.restarts
    assert (restarts.failures, restarts.last_reason) == (2, "ExitCode")


@pytest.mark.parametrize(
    ("held", "template", "sizes"),
    [
        pytest.param(3, TEMPLATE, [3], id="one that is allowed"),
        pytest.param(5, TEMPLATE, [1, 2, 3], id="one that is not allowed any more"),
        pytest.param(3, "older", [1, 2, 3], id="of another template"),
        pytest.param(None, TEMPLATE, [1, 2, 3], id="none"),
    ],
)
def test_sizes_are_chosen_by_the_one_that_is_left_and_the_spec_stays(
    held: int | None, template: str, sizes: list[int]
) -> None:
    known = Restarts(sizes=TriedSizes((3,), held=held, template=template))
    job = a_job(1, min=1, max=3).with_status(restarts=known).snapshot()
    assert list(allowed(job.effective_workers)) == sizes
    assert View(job, NOW).limited_size == sizes[0]
    assert list(allowed(job.spec.workers)) == [1, 2, 3]
