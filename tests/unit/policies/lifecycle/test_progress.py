from decimal import Decimal

import pytest

from spotrun.api.field_types.amounts import Percent
from spotrun.state.snapshot import PodEnd, PodPhase
from spotrun.state.stored.training import LocalCheckpoint, Progress
from spotrun.wire import Ending, LastWords
from spotrun.wire import Progress as Reported
from tests.support.jobs.builders import NOW, a_job, later


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (Reported(1, 50), Progress(step=50)),
        (Reported(1, 50, 200), Progress(step=50, total_steps=200, percent=Percent("25%"))),
        (Reported(1, 300, 200), Progress(step=300, total_steps=200, percent=Percent("100%"))),
        (
            Reported(1, 10, None, 320, 0.5),
            Progress(step=10, samples_per_second=Decimal("64.000")),
        ),
        (
            Reported(1, 1, None, 2**53, 1e-300),
            Progress(step=1, samples_per_second=Decimal("1000000000.000")),
        ),
    ],
)
def test_progress_is_what_members_report(reported: Reported, expected: Progress) -> None:
    status = a_job(1).training(0, progress=reported).decide().status
    assert status.progress == expected


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (Reported(2, 40), Progress(step=40, total_steps=200, percent=Percent("20%"))),
        (Reported(2, 40, 80), Progress(step=40, total_steps=80, percent=Percent("50%"))),
        (Reported(2, 0), Progress(step=50, total_steps=200, percent=Percent("25%"))),
        (Reported(2, 0, 200), Progress(step=50, total_steps=200, percent=Percent("25%"))),
    ],
)
def test_a_process_that_has_just_started_erases_nothing_that_was_known(
    reported: Reported, expected: Progress
) -> None:
    known = Progress(step=50, total_steps=200, percent=Percent("25%"))
    job = a_job(1).training(0, progress=reported).with_status(progress=known)
    assert job.decide().status.progress == expected


@pytest.mark.parametrize(
    ("reported", "step"),
    [
        (Reported(1, 97), 100),  # the worker that is gone had reported later
        (Reported(1, 101), 101),
        (Reported(2, 97), 97),  # steps are done again
        (Reported(0, 97), 97),  # of an agent that tells no world
    ],
)
def test_what_was_reported_in_an_earlier_world_takes_no_step_back(
    reported: Reported, step: int
) -> None:
    job = a_job(2).training(0, 1, world_number=2, progress=reported)
    assert job.with_status(progress=Progress(step=100)).decide().status.progress.step == step


def test_strangers_to_the_world_report_no_progress_and_no_checkpoint() -> None:
    job = a_job(1, max=2).training(0).with_worker(1, ready=True, committed="step-900.g1")
    assert job.decide().status.checkpoint is None


def test_a_checkpoint_in_the_last_words_of_a_member_is_acknowledged() -> None:
    words = LastWords(Ending.DEPARTED, step=40, checkpoint="step-40.g1")
    ended = {"phase": PodPhase.FAILED, "end": PodEnd(exit_code=0, words=words)}
    job = a_job(2).training(0, 1, committed="step-5.g1").with_worker(1, **ended)
    acknowledged = job.decide().status.checkpoint
    assert acknowledged is not None
    assert (acknowledged.name, acknowledged.step) == ("step-40.g1", 40)


def test_an_older_checkpoint_is_no_news() -> None:
    job = a_job(1).training(0, committed="step-5.g1").with_checkpoint(7)
    assert job.decide().status.checkpoint == job.status.checkpoint


def test_the_newest_step_in_the_local_tier_is_known_with_the_time_at_which_it_came() -> None:
    job = a_job(2).training(0, 1, progress=Reported(1, 50, kept="step-48.g1"))
    first = job.decide().status
    assert first.local_checkpoint == LocalCheckpoint(step=48, time=NOW)
    assert job.with_state(first).decide(later(9)).status.local_checkpoint == first.local_checkpoint
    one = job.with_state(first).with_worker(
        1, ready=True, arrived=1, progress=Reported(1, 51, kept="step-51.g1")
    )
    assert one.decide(later(9)).status.local_checkpoint == LocalCheckpoint(step=51, time=later(9))


def test_what_an_older_world_kept_is_nothing_where_the_newest_keeps_none() -> None:
    kept = LocalCheckpoint(step=48, time=NOW)
    job = a_job(2).training(0, 1, progress=Reported(1, 50, kept="step-48.g1"))
    restarted = job.with_worker(1, ready=True, arrived=1, progress=Reported(2, 40))
    assert restarted.with_status(local_checkpoint=kept).decide().status.local_checkpoint is None


def test_the_local_tier_ends_with_its_workers_and_not_with_their_silence() -> None:
    kept = LocalCheckpoint(step=48, time=NOW)
    gone = a_job(1, suspend=True).with_status(local_checkpoint=kept)
    assert gone.decide().status.local_checkpoint is None
    silent = a_job(1).training(0).with_worker(0).with_status(local_checkpoint=kept)
    assert silent.decide().status.local_checkpoint == kept
