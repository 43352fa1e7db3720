"""What a script changes after an evaluation: the best so far, a schedule that goes by a metric."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import ReduceLROnPlateau
from typing_extensions import override

from spotrun.wire import How
from spotrun_trainer import Run
from spotrun_trainer.checkpoint.ownership import Ownership, read_claim
from spotrun_trainer.elastic import state_transfer
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.loop.evaluation.evaluate import Alone
from spotrun_trainer.process.ipc_files import read_progress
from tests.support.processes.trainer_world import run_alone, run_world
from tests.unit.trainer.run.elastic import Job, Jobs, this_is
from tests.unit.trainer.run.scripts import dataset
from tests.unit.trainer.run.test_joining_workers import wait_for
from tests.unit.trainer.run.test_worlds_amid import DieAt, DoubtAt, Incident, before_commits


class Best:
    def __init__(self) -> None:
        self.loss = 1e9
        self.history: list[float] = []

    def state_dict(self) -> dict[str, Any]:
        return {"loss": self.loss, "history": self.history}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loss, self.history = state["loss"], list(state["history"])


def mean(model: nn.Module, batch: list[Tensor]) -> Tensor:
    return functional.cross_entropy(model(batch[0]), batch[1])


def first_weight(model: nn.Module, _batch: list[Tensor]) -> Tensor:
    return next(model.parameters()).flatten()[0]


def by_metric(
    incident: Incident | None = None, place: str | None = None, total: int = 8
) -> dict[str, Any]:
    """A training that evaluates twice after each step, and goes by both; all that it ends with."""
    if incident is not None:
        before_commits(incident)
    run = Run(2, deterministic=True, checkpoint=place)
    torch.manual_seed(2)
    model = run.prepare(nn.Linear(6, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=4.0)  # so large that metrics go up and down
    plateau = ReduceLROnPlateau(optimizer, factor=0.5, patience=0, cooldown=1)
    best = Best()
    run.track(model=model, optimizer=optimizer, plateau=plateau, best=best)
    for step in run.steps(dataset(), global_batch=16, microbatch=2, total=total, num_workers=0):
        with step:
            for x, y in step:
                step.backward(functional.cross_entropy(model(x), y), mean_of=len(y))
            step.update(optimizer)
        if run.every(1):
            loss = run.evaluate(model, dataset(), mean, microbatch=5)
            best.loss = min(best.loss, loss)
            best.history.append(round(loss, 4))
            weight = run.evaluate(model, dataset(), first_weight, microbatch=5)
            best.history.append(round(weight, 4))
            plateau.step(loss)
    return {
        "weights": [round(value, 5) for value in model.weight.flatten().tolist()],
        "best": (round(best.loss, 4), best.history),
        "rate": optimizer.param_groups[0]["lr"],
        "bad epochs": (plateau.num_bad_epochs, plateau.last_epoch),
    }


def test_a_schedule_goes_by_a_metric_on_all_processes_alike() -> None:
    alone = run_alone(by_metric).value
    assert alone["rate"] < 1.0  # it was reduced, more than once
    assert alone["bad epochs"][1] == 8
    for ended in run_world(2, by_metric):
        assert ended.error == "", ended.said
        assert ended.value == alone


# Of a step and its two evaluations; so the tenth commit is that of the fourth step.
@pytest.mark.parametrize("number", [10, 11, 12], ids=["step", "first", "second"])
def test_a_joining_worker_has_what_the_others_changed_after_the_evaluation_that_it_came_amid(
    jobs: Jobs, number: int
) -> None:
    job = jobs.start(by_metric, DieAt("a", number), workers="abc")
    job.until_dead("a")
    job.bring_in(How.ABORT, *"bnc")
    for ended in job.ended(*"bcn"):
        assert ended.error == "", ended.said
        assert ended.value == run_alone(by_metric).value


@pytest.mark.parametrize("number", [11, 12], ids=["first", "second"])
def test_a_joining_worker_comes_where_one_does_not_know_of_an_evaluation_that_the_others_passed(
    jobs: Jobs, number: int
) -> None:
    job = jobs.start(by_metric, DoubtAt("b", number), workers="abc")
    job.until(lambda: all(job.progress(each).broken for each in "abc"))
    job.bring_in(How.ABORT, *"anbc")
    for ended in job.ended(*"abcn"):
        assert ended.error == "", ended.said
        assert ended.value == run_alone(by_metric).value


@dataclass(frozen=True)
class StopAt:
    """A worker stands still before a commit; the others wait for it some commits later."""

    worker: str
    number: int
    folder: Path

    def __call__(self, number: int) -> None:
        if this_is(self.worker) and number == self.number:
            (self.folder / "stopped").touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        if not this_is(self.worker) and number == self.number + 7:
            (self.folder / f"waits-{os.environ['SPOTRUN_WORKER']}").touch()
            while not (self.folder / "go").exists():
                time.sleep(0.01)


def stood_still(
    jobs: Jobs,
    stop: StopAt,
    *,
    order: str = "abc",
    function: Callable[..., dict[str, Any]] = by_metric,
    arguments: tuple[str, ...] = (),
) -> Job:
    """A job in which one of three has come back to the others, who have gone on."""
    job = jobs.start(function, stop, *arguments, workers="abc")
    job.until((stop.folder / "stopped").exists)
    job.publish(How.ABORT, "a", "c")
    job.until(lambda: all((stop.folder / f"waits-{one}").exists() for one in "ac"))
    job.publish(How.ABORT, *order)
    job.signal("b", signal.SIGCONT)
    (stop.folder / "go").touch()
    return job


def held_amid_an_evaluation(incident: Incident, place: str) -> dict[str, Any]:
    """As above, saved where others must be kept out; b waits in what it evaluates alone."""
    assert Ownership.__init__.__kwdefaults__ is not None
    Ownership.__init__.__kwdefaults__["beat_seconds"] = 0.05
    evaluates_alone = Alone.__init__

    def alone(participants: Alone, world: Group) -> None:
        evaluates_alone(participants, world)
        (Path(place) / "alone").touch()
        wait_for(Path(place) / "finish")

    Alone.__init__ = alone  # type: ignore[method-assign,assignment]
    return by_metric(incident, place)


def test_the_first_process_keeps_other_trainings_out_also_while_it_evaluates_alone(
    jobs: Jobs, tmp_path: Path
) -> None:
    place = tmp_path / "checkpoints"
    place.mkdir()
    stop = StopAt("b", 11, tmp_path)
    job = stood_still(
        jobs, stop, order="bac", function=held_amid_an_evaluation, arguments=(str(place),)
    )
    job.until((place / "alone").exists)
    # The one that was the first before has left it to b by then.
    job.until(lambda: job.progress("a").world_number == job.world_number)
    known = read_claim(place)
    job.until(lambda: read_claim(place) != known)
    (place / "finish").touch()
    for ended in job.ended(*"abc"):
        assert ended.error == "", ended.said


@pytest.mark.parametrize("number", [11, 12], ids=["first", "second"])
def test_who_stood_still_in_an_evaluation_gets_what_the_others_have_made_meanwhile(
    jobs: Jobs, tmp_path: Path, number: int
) -> None:
    job = stood_still(jobs, StopAt("b", number, tmp_path))
    for ended in job.ended(*"abc"):
        assert ended.error == "", ended.said
        assert ended.value == run_alone(by_metric).value


@dataclass(frozen=True)
class NoteWhatIsTold(StopAt):
    """The worker that stood still notes in which world it says that it has the state."""

    @override
    def __call__(self, number: int) -> None:
        if this_is(self.worker) and number == self.number:
            state_transfer.receive_header = self._noted  # type: ignore[assignment]
        super().__call__(number)

    def _noted(self, *args: Any) -> state_transfer.Header:
        told = read_progress(Path(os.environ["SPOTRUN_DIR"])).world_number
        (self.folder / "told").write_text(str(told))
        return TAKE_HEADER(*args)


TAKE_HEADER = state_transfer.receive_header


def test_who_stood_still_in_an_evaluation_says_that_it_has_the_state_once_it_has(
    jobs: Jobs, tmp_path: Path
) -> None:
    job = stood_still(jobs, NoteWhatIsTold("b", 11, tmp_path))
    assert {ended.error for ended in job.ended(*"abc")} == {""}
    assert (tmp_path / "told").read_text() == "1"
    assert job.progress("b").world_number == job.world_number


def test_what_was_changed_after_an_evaluation_comes_back_from_a_checkpoint(tmp_path: Path) -> None:
    for size, total in ((2, 4), (1, 8)):
        ended = run_world(size, by_metric, None, str(tmp_path), total)
        assert {one.error for one in ended} == {""}, ended[0].said
    assert ended[0].value == run_alone(by_metric).value
