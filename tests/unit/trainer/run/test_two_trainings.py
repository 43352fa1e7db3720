"""Two trainings that keep their checkpoints in one folder, by mistake or one after the other."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from spotrun.wire import How
from spotrun_trainer.checkpoint import Checkpoints
from spotrun_trainer.checkpoint.ownership import Ownership, read_claim
from tests.support.processes.trainer_world import PATIENCE_SECONDS, Process, run_alone
from tests.unit.trainer.run.elastic import Jobs
from tests.unit.trainer.run.scripts import Plan, Trained, train
from tests.unit.trainer.run.test_worlds import DieInForward, Hold


@contextmanager
def held(folder: Path, plan: Plan) -> Iterator[Process]:
    """A training that has saved something, and stands in a step until `go` is there."""
    first = Process({}, train, replace(plan, nuisance=Hold(folder)))
    until = time.monotonic() + PATIENCE_SECONDS
    while not (folder / "held").exists() or not complete(Path(plan.checkpoint or "")):
        assert first.is_alive, first.ended(until)
        assert time.monotonic() < until
        time.sleep(0.01)
    try:
        yield first
    finally:
        (folder / "go").touch()
        first.signal(signal.SIGKILL)


def complete(place: Path) -> list[str]:
    return Checkpoints(place, keep=3).complete()


def test_a_second_training_is_refused_and_harms_no_checkpoint_of_the_first(tmp_path: Path) -> None:
    place = tmp_path / "checkpoints"
    plan = Plan(total=6, checkpoint=str(place), every="1 steps")
    with held(tmp_path, plan) as first:
        before = complete(place)
        second = run_alone(train, replace(plan, total=20))
        assert "FolderInUseError: a training (process " in second.error
        assert f"keeps its checkpoints in {place}, too, and runs" in second.error
        assert set(before) <= {path.name for path in place.iterdir()}
        (tmp_path / "go").touch()
        ended = first.ended(time.monotonic() + PATIENCE_SECONDS)
    assert ended.error == "", ended.said
    assert complete(place)[0] == "step-6.g0"

    third = run_alone(train, replace(plan, total=8))
    assert third.error == "", third.said
    assert len(third.value.losses) == 2, "it goes on from the end of the first one"


def test_what_was_killed_is_gone_on_with_at_once(tmp_path: Path) -> None:
    place = tmp_path / "checkpoints"
    plan = Plan(total=6, checkpoint=str(place), every="1 steps")
    with held(tmp_path, plan) as first:
        first.signal(signal.SIGKILL)
        assert first.ended(time.monotonic() + PATIENCE_SECONDS).exit_code == -signal.SIGKILL
        newest = complete(place)[0]
    second = run_alone(train, plan)
    assert second.error == "", second.said
    assert "is taken over" not in second.said, "it was not waited for a process that has ended"
    assert f"continuing from {newest}" in second.said


def train_with_quick_claims(plan: Plan) -> Trained:
    assert Ownership.__init__.__kwdefaults__ is not None
    Ownership.__init__.__kwdefaults__["beat_seconds"] = 0.05
    return train(plan)


def test_who_survives_the_first_process_keeps_others_out_until_there_is_a_world(
    jobs: Jobs, tmp_path: Path
) -> None:
    place = tmp_path / "checkpoints"
    plan = Plan(total=6, checkpoint=str(place), nuisance=DieInForward("a"))
    job = jobs.start(train_with_quick_claims, plan, workers="abc")
    job.until(lambda: all(job.progress(each).broken for each in "bc"))
    for _ in range(3):
        known = read_claim(place)
        job.until(lambda known=known: read_claim(place) != known)  # type: ignore[misc]
    job.publish(How.ABORT, "b", "c")
    for ended in job.ended(*"bc"):
        assert ended.error == "", ended.said
    assert read_claim(place) is None
