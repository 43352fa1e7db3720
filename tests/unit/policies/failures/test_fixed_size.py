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
from spotrun.state.stored.failures import NO_SIZES, Restarts, TriedSizes
from spotrun.wire import Failure, Progress
from tests.support.jobs.builders import NOW, TEMPLATE, JobBuilder, a_job, ago, later

REFUSAL = "rank 0 ended with exit code 1: ValueError: num_nodes=3, but {} nodes joined"
COMPARED = "rank # ended with exit code #: ValueError: num_nodes=#, but # nodes joined"
SUSPECT = TriedSizes(trained=(3,), suspect=2, error=COMPARED)


@pytest.mark.parametrize(
    ("known", "size", "message", "after"),
    [
        (NO_SIZES, 2, "boom", NO_SIZES),
        (TriedSizes((3,)), 3, "boom", TriedSizes((3,))),
        (TriedSizes((2, 3)), 2, "boom", TriedSizes((2, 3))),
        (TriedSizes((3,)), 2, "boom 7", TriedSizes((3,), 2, "boom #")),
        (TriedSizes((3,), 2, "boom #"), 2, "boom 8", TriedSizes((3,), 2, "boom #", 3, "t")),
        (TriedSizes((3,), 2, "boom #"), 2, "other", TriedSizes((3,), 2, "other")),
        (TriedSizes((3,), 2, "boom #"), 1, "boom 7", TriedSizes((3,), 1, "boom #")),
        (TriedSizes((3,), 2, "boom #"), 3, "boom 7", TriedSizes((3,))),
        (TriedSizes((3,), 2, "b", 3, "t"), 3, "b", TriedSizes((3,), 2, "b", 3, "t")),
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
    ],
)  # fmt: skip
def test_a_start_that_fails_at_a_size(
    known: TriedSizes, size: int, message: str, after: TriedSizes
) -> None:
    assert after_failed_start(known, size, message, "t") == after


@pytest.mark.parametrize(
    ("known", "size", "after"),
    [
        (NO_SIZES, 2, TriedSizes((2,))),
        (TriedSizes((2, 3)), 2, TriedSizes((3, 2))),
        (TriedSizes((3,), 2, "boom"), 2, TriedSizes((3, 2))),
        (TriedSizes((3,), 2, "boom"), 3, TriedSizes((3,), 2, "boom")),
        (TriedSizes((3,), 2, "b", 3, "t"), 3, TriedSizes((3,), 2, "b", 3, "t")),
    ],
)
def test_a_size_that_trains(known: TriedSizes, size: int, after: TriedSizes) -> None:
    assert after_steps(known, size) == after


@given(st.lists(st.tuples(st.integers(1, 60), st.booleans(), st.sampled_from("ab"))))
def test_no_two_sizes_wait_for_each_other(events: list[tuple[int, bool, str]]) -> None:
    """Whatever happens at which sizes: once held the size stays, and it is one that trained."""
    known, held = NO_SIZES, None
    for size, trains, words in events:
        now = held or size  # a job that keeps to a size is started at no other
        before = known
        failed = after_failed_start(known, now, words, "t")
        known = after_steps(known, now) if trains else failed
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
        known = after_failed_start(known, known.held or size, "boom", "t")
        failures = failures - 1 if is_refusal(before, known) else failures + 1
        if failures > most + is_on_probation(known):
            return
    pytest.fail("it is started again for ever")


def failing_at_two(restarts: Restarts, **spec: Any) -> JobBuilder:
    """Return a job that trained with three workers, lost one, and fails to start with two."""
    job = a_job(3, min=1, max=3, **spec).training(0, 1, generation=5, in_process=False)
    for serial in (0, 1):
        failed = Failure(5, 1, REFUSAL.format(2))
        job = job.with_worker(serial, in_process=False, ready=True, arrived=5, failed=failed)
    return job.with_status(restarts=restarts)


def test_the_size_at_which_a_plain_script_trains_is_remembered() -> None:
    job = a_job(2, min=1).training(0, 1, generation=5, in_process=False, saves_on_order=False)
    stepped = Progress(5, 7, step_seconds=0.1)
    for serial in (0, 1):
        job = job.with_worker(
            serial,
            ready=False,
            in_process=False,
            saves_on_order=False,
            arrived=5,
            progress=stepped,
        )
    assert job.decide().status.restarts.sizes == TriedSizes((2,))


def test_the_first_failure_at_a_new_size_counts_and_one_more_start_is_granted() -> None:
    job = failing_at_two(Restarts(sizes=TriedSizes((3,))), failures={"maxRestarts": 0})
    status = job.decide().status
    assert (status.restarts.failures, status.restarts.sizes) == (1, SUSPECT)
    assert job.with_state(status).decide(later(6)).status.phase is not Phase.FAILED


def refused() -> JobBuilder:
    before = Restarts(
        failures=2, counted_since=ago(30), last_world=4, last_reason="ExitCode",
        blamed=("node-9", "node-0"), sizes=SUSPECT,
    )  # fmt: skip
    return failing_at_two(before)


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
    told = [one for one in decision.announcements if one.reason is Reason.SIZE_REFUSED]
    assert len(told) == 1


def test_the_job_waits_for_its_old_size_and_trains_at_no_other() -> None:
    held = refused().with_state(refused().decide().status)
    waits = held.decide(later(11)).status
    assert waits.world.members == ()
    assert waits.reason == Reason.SIZE_REFUSED
    ready = held.with_state(waits)
    for serial in range(3):
        ready = ready.with_worker(serial, in_process=False, ready=True)
    world = ready.decide(later(60)).status.world
    assert (world.members, world.is_active) == ((0, 1, 2), True)


@pytest.mark.parametrize("change", ["size", "template"])
def test_another_size_or_template_ends_the_wait(change: str) -> None:
    job = refused().with_state(refused().decide().status)
    by_spec, by_template = job.with_spec(2, min=2, max=2), job.with_facts(template="t2")
    job = by_template if change == "template" else by_spec
    sizes = job.decide(later(11)).status.restarts.sizes
    assert (sizes.held, sizes.suspect, sizes.trained) == (None, None, (3,))


def test_at_the_size_that_trained_failures_count_as_ever() -> None:
    sizes = replace(SUSPECT, held=3, template=TEMPLATE)
    job = a_job(3, min=1, max=3).training(0, 1, 2, generation=6, in_process=False)
    job = job.with_worker(
        0, in_process=False, ready=True, arrived=6, failed=Failure(6, 1, "boom")
    ).with_status(restarts=Restarts(failures=1, counted_since=ago(30), sizes=sizes))
    restarts = job.decide(NOW).status.restarts
    assert (restarts.failures, restarts.last_reason) == (2, "ExitCode")
