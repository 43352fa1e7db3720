import pytest

from spotrun.api.names import Reason
from spotrun.policies.world.batch_change import size_change
from spotrun.state.stored.failures import NO_SIZES, Restarts, TriedSizes
from spotrun.state.stored.training import BatchChange
from spotrun.wire import batch_change
from tests.support.jobs.builders import NOW, TEMPLATE, JobBuilder, later
from tests.support.jobs.stepping_jobs import stepping


@pytest.mark.parametrize(
    ("before", "now", "sizes"),
    [
        (NO_SIZES, NO_SIZES, None),
        (NO_SIZES, TriedSizes((2,), template="t"), None),
        (TriedSizes((2,), template="t"), TriedSizes((2,), template="t"), None),
        (TriedSizes((2,), template="t"), TriedSizes((2, 3), template="t"), (2, 3)),
        (TriedSizes((2, 3), template="t"), TriedSizes((3, 2), template="t"), (3, 2)),
        (TriedSizes((2,), template="t"), TriedSizes((3,), template="u"), None),
        (TriedSizes((2,), template="t"), NO_SIZES, None),
    ],
    ids=[
        "nothing trained",
        "the first size",
        "the same size",
        "a larger one",
        "back to a former one",
        "with another template",
        "a template of which nothing is known",
    ],
)
def test_a_change_of_size_is_seen_at_its_first_step(
    before: TriedSizes, now: TriedSizes, sizes: tuple[int, int] | None
) -> None:
    assert size_change(before, now) == sizes


def test_the_words_name_what_changes() -> None:
    assert batch_change(2, 3, "workers") == (
        "3 workers train instead of 2: unless the script adapts to this, a step takes 1.5 times "
        "as many samples (the global batch), an epoch has 0.667 times as many steps, and the order "
        "of the samples and the random numbers are different. The learning rate is not adjusted. "
        "To keep the batch, set workers.min = workers.max, or list in workers.sizes the numbers "
        "that divide it: kubectl tjob doctor"
    )


def having_trained(sizes: tuple[int, ...], *, in_process: bool = False) -> JobBuilder:
    """Return a job that makes steps with two workers, after worlds of these sizes."""
    known = Restarts(sizes=TriedSizes(sizes, template=TEMPLATE))
    return stepping(in_process=in_process).with_status(restarts=known)


def test_a_change_is_told_once_and_stays_in_the_status() -> None:
    job = having_trained((3,))
    decision = job.decide()
    words = batch_change(3, 2, "workers")
    assert decision.status.batch_change == BatchChange(NOW, 3, 2, words)
    told = [one for one in decision.announcements if one.reason is Reason.BATCH_CHANGED]
    assert [(one.message, one.is_warning) for one in told] == [(words, True)]
    after = job.with_state(decision.status).decide(later(60))
    assert after.status.batch_change == BatchChange(NOW, 3, 2, words)
    assert Reason.BATCH_CHANGED not in {one.reason for one in after.announcements}


def test_at_the_size_that_trained_last_nothing_is_told() -> None:
    assert having_trained((3, 2)).decide().status.batch_change is None


def test_run_holds_the_batch_so_nothing_is_told() -> None:
    assert having_trained((3,), in_process=True).decide().status.batch_change is None
