"""Processes that are told to end, or to change worlds, in the moment in which something breaks."""

import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from spotrun.wire import How
from spotrun_trainer import Run
from spotrun_trainer.checkpoint import Checkpoints
from spotrun_trainer.elastic import state_transfer
from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.loop.evaluation.evaluate import Participants
from spotrun_trainer.loop.loop import Loop
from spotrun_trainer.process.ipc_files import WorldFile, write_world
from spotrun_trainer.state.tracked import Tracked
from tests.unit.trainer.run.elastic import Jobs, die, this_is
from tests.unit.trainer.run.scripts import Plan, dataset, train
from tests.unit.trainer.run.test_joining_workers import wait_for
from tests.unit.trainer.run.test_worlds_amid import alone, evaluating, two_phases


@dataclass(frozen=True)
class HoldThenDie:
    """All wait before a commit until the test lets go; a worker dies before a later one."""

    folder: Path
    worker: str
    hold: int
    death: int

    def __call__(self, number: int) -> None:
        if number == self.hold:
            (self.folder / f"held-{os.environ['SPOTRUN_WORKER']}").touch()
            wait_for(self.folder / "go")
        if number == self.death and this_is(self.worker):
            die()


def test_a_boundary_that_was_agreed_on_in_a_phase_counts_no_more_once_the_world_has_broken(
    jobs: Jobs, tmp_path: Path
) -> None:
    job = jobs.start(two_phases, HoldThenDie(tmp_path, "a", 4, 6), workers="abc")
    job.until(lambda: all((tmp_path / f"held-{each}").exists() for each in "abc"))
    job.publish(How.BOUNDARY, "b", "c")  # that all vote for in the first phase of the third step
    (tmp_path / "go").touch()
    for ended in job.ended("b", "c"):
        assert ended.error == "", ended.said
        assert alone(two_phases) == ended.value


def _die(_loop: Loop) -> None:
    die()


@dataclass(frozen=True)
class TellAndDie:
    """A worker is told to end in an evaluation; another one dies when all give that up."""

    told: str
    dies: str

    def __call__(self, number: int) -> None:
        if number != 3:  # the step before the second evaluation
            return
        if this_is(self.told):
            os.kill(os.getpid(), signal.SIGTERM)
        if this_is(self.dies):
            Loop.save_and_leave = _die  # type: ignore[method-assign,assignment]


def test_a_peer_dies_while_an_evaluation_is_given_up(jobs: Jobs) -> None:
    job = jobs.start(evaluating, TellAndDie("a", "b"), workers="abc")
    job.until_dead("b")
    job.publish(How.ABORT, "a", "c")
    job.until_dead("a")
    job.publish(How.ABORT, "c")
    leaver, stays = job.ended("a", "c")
    assert (leaver.error, leaver.exit_code) == ("", 0), leaver.said
    assert "told to end" in leaver.said
    assert stays.error == "", stays.said
    assert alone(evaluating) == stays.value


@dataclass(frozen=True)
class TellWhoEvaluatesAlone:
    """One dies in an evaluation, and one of the others is told to end when it is alone with it."""

    dies: str
    told: str

    def __call__(self, number: int) -> None:
        if number == 4 and this_is(self.dies):
            die()
        if number == 4 and this_is(self.told):
            Participants.must_end = _told_now  # type: ignore[method-assign,assignment]


def _told_now(_together: Participants) -> bool:
    os.kill(os.getpid(), signal.SIGTERM)
    return False


def test_who_is_told_to_end_in_an_evaluation_of_its_own_leaves_after_the_next_step(
    jobs: Jobs,
) -> None:
    job = jobs.start(evaluating, TellWhoEvaluatesAlone("a", "b"), workers="abc")
    job.until_dead("a")
    job.bring_in(How.ABORT, *"bcn")
    job.until_dead("b")
    job.publish(How.ABORT, "c", "n")
    leaver, stays, joining_worker = job.ended("b", "c", "n")
    assert "told to end, after step 3" in leaver.said
    assert (stays.error, joining_worker.error) == ("", ""), stays.said
    losses, means = alone(evaluating)
    assert (losses, means) == stays.value
    assert losses[-len(joining_worker.value[0]) :] == joining_worker.value[0]


def evaluate_first() -> None:
    """The time is over before there is anything to be saved."""
    run = Run(1)
    model = run.prepare(nn.Linear(6, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    run.track(model=model, optimizer=optimizer)
    directory = os.environ["SPOTRUN_DIR"]
    answer = WorldFile(directory).read()
    assert answer is not None
    write_world(directory, replace(answer, version="late", stop_at=time.time() - 1))

    def mean(model: nn.Module, batch: list[Tensor]) -> Tensor:
        return functional.cross_entropy(model(batch[0]), batch[1])

    run.evaluate(model, dataset(), mean, microbatch=5)
    for step in run.steps(dataset(), global_batch=16, microbatch=2, total=5, num_workers=0):
        with step:
            for x, y in step:
                step.backward(functional.cross_entropy(model(x), y, reduction="sum"), weight=2)
            step.update(optimizer)


def test_who_is_out_of_time_before_the_first_step_leaves_with_that(jobs: Jobs) -> None:
    (ended,) = jobs.start(evaluate_first, workers="a").ended("a")
    assert (ended.error, ended.exit_code) == ("", 0), ended.said
    assert "told to end, after step 1" in ended.said


@dataclass(frozen=True)
class StopAndDie:
    """The script ends the training early, and a worker dies before the last checkpoint is there."""

    worker: str

    def __call__(self, run: Run, step: int, _count: int) -> None:
        if step == 3:
            run.stop()
        if this_is(self.worker):
            Loop._complete = _die  # type: ignore[method-assign,assignment]


def test_who_comes_when_the_training_was_stopped_completes_it_with_the_others(
    jobs: Jobs, tmp_path: Path
) -> None:
    place = tmp_path / "checkpoints"
    plan = Plan(checkpoint=str(place), nuisance=StopAndDie("b"))
    job = jobs.start(train, plan, workers="ab")
    job.until_dead("b")
    job.publish(How.ABORT, "a", "n")
    job.start("n")
    ended = job.ended("a", "n")
    assert [one.error for one in ended] == ["", ""], ended[1].said
    assert [len(one.value.losses) for one in ended] == [3, 0]
    assert Checkpoints(place, keep=3).newest() == "step-3.g2"


@dataclass(frozen=True)
class DieGiving:
    """A joining worker has got some of the state when the only one who has all of it dies."""

    folder: Path

    def __call__(self, _run: Run, step: int, count: int) -> None:
        if this_is("n"):
            state_transfer.receive = self._take  # type: ignore[assignment]
        elif (step, count) == (3, 0):
            (self.folder / "held").touch()
            wait_for(self.folder / "go")
        elif step == 4:
            wait_for(self.folder / "taking")
            die()

    def _take(
        self, _group: Group, _rank: int, tracked: Tracked, *_: object, **_named: object
    ) -> None:
        for tensor in tracked.flatten().tensors.values():
            tensor.zero_()
        (self.folder / "taking").touch()
        raise PeerLostError("it gives no more")


def test_what_a_joining_worker_has_got_of_a_state_is_not_what_a_training_begins_with(
    jobs: Jobs, tmp_path: Path
) -> None:
    plan = Plan(nuisance=DieGiving(tmp_path))
    job = jobs.start(train, plan, workers="a")
    job.until((tmp_path / "held").exists)
    job.bring_in(How.BOUNDARY, "a", "n")
    (tmp_path / "go").touch()
    job.until_dead("a")
    job.publish(How.ABORT, "n")
    (joining_worker,) = job.ended("n")
    assert "StrandedError" in joining_worker.error, joining_worker.said
