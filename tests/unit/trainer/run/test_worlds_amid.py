"""Worlds that change amid something else: phases, evaluations, checkpoints, other changes."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from spotrun.wire import How
from spotrun_trainer import Run
from spotrun_trainer.checkpoint import Checkpoints
from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.elastic.membership import Membership
from spotrun_trainer.elastic.pending_collectives import Pending
from spotrun_trainer.elastic.process_group import Group
from tests.support.processes.trainer_world import run_alone
from tests.unit.trainer.run.elastic import Jobs, die, this_is
from tests.unit.trainer.run.scripts import Plan, dataset, train

Incident = Callable[[int], None]
"""Called with the number of each commit, right before it."""
Ended = tuple[list[float], list[float]]


def two_phases(incident: Incident | None = None) -> Ended:
    """Two models with an optimizer each, in phases of one step; losses of each."""
    if incident is not None:
        before_commits(incident)
    run = Run(2, deterministic=True)
    torch.manual_seed(2)
    models = [run.prepare(nn.Linear(6, 3)) for _ in range(2)]
    optimizers = [torch.optim.AdamW(model.parameters(), lr=0.05) for model in models]
    run.track(a=models[0], b=models[1], opt_a=optimizers[0], opt_b=optimizers[1])
    losses: list[list[float]] = [[], []]
    for step in run.steps(dataset(), global_batch=16, microbatch=2, total=5, num_workers=0):
        with step:
            for model, optimizer, name in zip(models, optimizers, "ab", strict=True):
                with step.phase(name):
                    for x, y in step:
                        loss = functional.cross_entropy(model(x), y, reduction="sum")
                        step.backward(loss, weight=len(y))
                    step.update(optimizer)
            # Only once it is whole: a step that comes again has had some of its phases before.
            losses[0].append(sum(float(w.detach().sum()) for w in models[0].parameters()))
            losses[1].append(sum(float(w.detach().sum()) for w in models[1].parameters()))
    return losses[0], losses[1]


def evaluating(incident: Incident | None = None) -> Ended:
    """A training that evaluates after each step; losses, and means."""
    if incident is not None:
        before_commits(incident)
    run = Run(2, deterministic=True)
    torch.manual_seed(2)
    model = run.prepare(nn.Linear(6, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    run.track(model=model, optimizer=optimizer)
    losses, means = [], []

    def mean(model: nn.Module, batch: list[Tensor]) -> Tensor:
        return functional.cross_entropy(model(batch[0]), batch[1])

    for step in run.steps(dataset(), global_batch=16, microbatch=2, total=5, num_workers=0):
        with step:
            for x, y in step:
                loss = functional.cross_entropy(model(x), y, reduction="sum")
                step.backward(loss, weight=len(y))
            step.update(optimizer)
            losses.append(step.loss.item())
        if run.every(1):
            means.append(round(run.evaluate(model, dataset(), mean, microbatch=5), 5))
    return losses, means


@cache
def alone(script: Callable[[], Ended]) -> Ended:
    ended: Ended = run_alone(script).value
    return ended


def before_commits(incident: Incident) -> None:
    commit, number = Membership.commit, 0

    def watched(worlds: Membership, numbers: Tensor) -> None:
        nonlocal number
        number += 1
        incident(number)
        commit(worlds, numbers)

    Membership.commit = watched  # type: ignore[method-assign,assignment]


@dataclass(frozen=True)
class DieAt:
    worker: str
    number: int

    def __call__(self, number: int) -> None:
        if this_is(self.worker) and number == self.number:
            die()


@dataclass(frozen=True)
class DoubtAt:
    """A worker hears that a commit has failed that the others have."""

    worker: str
    number: int

    def __call__(self, number: int) -> None:
        if not this_is(self.worker) or number != self.number:
            return
        whole = Group.all_reduce

        def doubtful(group: Group, tensor: Tensor) -> Pending:
            whole(group, tensor).wait()
            Group.all_reduce = whole  # type: ignore[method-assign]
            raise PeerLostError("so it seems")

        Group.all_reduce = doubtful  # type: ignore[method-assign,assignment]


@pytest.mark.parametrize("script", [two_phases, evaluating])
@pytest.mark.parametrize("number", [5, 6, 10], ids=["first", "second", "last"])
def test_who_dies_between_two_commits_of_a_step_leaves_the_others_as_if_alone(
    jobs: Jobs, script: Callable[[], Ended], number: int
) -> None:
    job = jobs.start(script, DieAt("a", number), workers="abc")
    job.until_dead("a")
    job.publish(How.ABORT, "b", "c")
    for ended in job.ended("b", "c"):
        assert ended.error == "", ended.said
        assert alone(script) == ended.value


@pytest.mark.parametrize("script", [two_phases, evaluating])
@pytest.mark.parametrize("number", [5, 6, 9], ids=["first", "second", "of the last step"])
def test_who_does_not_know_of_a_commit_within_a_step_ends_as_the_others_do(
    jobs: Jobs, script: Callable[[], Ended], number: int
) -> None:
    job = jobs.start(script, DoubtAt("b", number), workers="abc")
    job.until(lambda: all(job.progress(each).broken for each in "abc"))
    job.publish(How.ABORT, *"abc")
    for ended in job.ended(*"abc"):
        assert ended.error == "", ended.said
        assert alone(script) == ended.value


@pytest.mark.parametrize("number", [5, 6, 8], ids=["first", "second", "of the next step"])
def test_a_joining_worker_comes_to_one_who_is_a_commit_behind_the_others(
    jobs: Jobs, number: int
) -> None:
    """They begin in the new world with different steps, or phases, of which one has no part."""
    job = jobs.start(two_phases, DoubtAt("b", number), workers="abc")
    job.until(lambda: all(job.progress(each).broken for each in "abc"))
    job.bring_in(How.ABORT, *"anbc")
    *others, joining_worker = job.ended(*"abcn")
    for ended in (*others, joining_worker):
        assert ended.error == "", ended.said
    assert [ended.value for ended in others] == [alone(two_phases)] * 3
    for whole, own in zip(alone(two_phases), joining_worker.value, strict=True):
        assert whole[-len(own) :] == own


@pytest.mark.parametrize("number", [3, 4, 5, 6], ids=["step", "evaluation", "step", "evaluation"])
def test_a_spare_that_comes_for_one_who_died_joins_at_the_next_step(
    jobs: Jobs, number: int
) -> None:
    job = jobs.start(evaluating, DieAt("a", number), workers="ab")
    job.until_dead("a")
    job.bring_in(How.ABORT, "b", "n")
    survivor, joining_worker = job.ended("b", "n")
    assert (survivor.error, joining_worker.error) == ("", ""), joining_worker.said
    losses, means = alone(evaluating)
    assert (losses, means) == survivor.value
    assert losses[-len(joining_worker.value[0]) :] == joining_worker.value[0]
    assert means[-len(joining_worker.value[1]) :] == joining_worker.value[1]


@dataclass(frozen=True)
class DieInStep:
    worker: str

    def __call__(self, _run: Run, step: int, count: int) -> None:
        if this_is(self.worker) and (step, count) == (4, 1):
            die()


def test_a_checkpoint_that_lacks_a_part_is_followed_by_one_that_does_not(
    jobs: Jobs, tmp_path: Path
) -> None:
    place = tmp_path / "checkpoints"
    plan = Plan(total=12, checkpoint=str(place), every="1 steps", nuisance=DieInStep("b"))
    job = jobs.start(train, plan, workers="abc")
    job.until_dead("b")
    job.publish(How.ABORT, "a", "c")
    for ended in job.ended("a", "c"):
        assert ended.error == "", ended.said
    assert Checkpoints(place, keep=3).newest() == "step-12.g2"
    assert job.progress("a").checkpoint == "step-12.g2"


@dataclass(frozen=True)
class Held:
    """What a process has."""

    descriptors: int
    threads: int
    pages: int


@dataclass(frozen=True)
class Note:
    """Notes what a process has, in each step."""

    folder: Path

    def __call__(self, run: Run, _step: int, count: int) -> None:
        if count != -1:
            return
        pages = Path("/proc/self/statm").read_text().split()[1]
        found = [*(len(os.listdir(f"/proc/self/{what}")) for what in ("fd", "task")), pages]  # noqa: PTH208
        note = self.folder / f"{os.environ['SPOTRUN_WORKER']}.held"
        (new := note.with_suffix(".new")).write_text(" ".join(map(str, found)))
        new.replace(note)
        if (self.folder / "enough").exists():
            run.stop()


CHANGES, WARM_CHANGES = 200, 50
GROUP_DESCRIPTORS, GROUP_THREADS = 5, 3  # of one that gloo does not let go of


def test_two_hundred_changes_leave_nothing_behind(jobs: Jobs, tmp_path: Path) -> None:
    plan = replace(Plan(), total=10**9, nuisance=Note(tmp_path))
    job = jobs.start(train, plan, workers="ab")

    notes = {each: tmp_path / f"{each}.held" for each in "ab"}

    def held(worker: str) -> Held:
        return Held(*map(int, notes[worker].read_text().split()))

    warm = dict[str, Held]()
    for change in range(CHANGES):
        job.until(lambda: all(job.progress(each).world_number == job.world_number for each in "ab"))
        for note in notes.values():
            note.unlink(missing_ok=True)
        job.until(lambda: all(note.exists() for note in notes.values()))
        if change == WARM_CHANGES:
            warm = {each: held(each) for each in "ab"}
        how = How.ABORT if job.world_number % 4 else How.BOUNDARY
        job.publish(how, *("ab" if job.world_number % 3 else "ba"))

    def has_grown(worker: str) -> bool:
        before, now = warm[worker], held(worker)
        return (
            # Where a process is told too late, a group of it may be kept until gloo's time-out.
            now.descriptors > before.descriptors + GROUP_DESCRIPTORS
            or now.threads > before.threads + GROUP_THREADS
            or (now.pages - before.pages) * os.sysconf("SC_PAGE_SIZE") > 10 * 2**20
        )

    job.until(lambda: not any(map(has_grown, "ab")))  # connections that were cut end a little later
    (tmp_path / "enough").touch()
    assert [ended.error for ended in job.ended("a", "b")] == ["", ""]
