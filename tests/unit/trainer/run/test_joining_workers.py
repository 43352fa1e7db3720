"""Joining workers get the state while the others compute, and end as if nobody had come."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from typing_extensions import override

from spotrun.wire import How
from spotrun_trainer.elastic import state_transfer
from spotrun_trainer.run import Run
from tests.unit.trainer.run.elastic import PATIENCE_SECONDS, Job, Jobs, die, this_is
from tests.unit.trainer.run.scripts import Plan, Trained, train
from tests.unit.trainer.run.test_worlds import assert_undisturbed, undisturbed

PLAN = Plan(total=6, with_batch_norm=True, with_dropout=True, clip=0.5, deterministic=True)
JOINING_WORKER = "n"
AT = 3  # the step that the others are in when the joining worker is warm


def wait_for(file: Path) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not file.exists():
        assert time.monotonic() < until, f"nobody has made {file.name}"
        time.sleep(0.005)


@dataclass(frozen=True)
class Meanwhile:
    """Nothing of the state is sent until survivors are amid the next step, and `then` follows.

    They wait there: so if the state waited for the end of their step, or their step for the state,
    all would wait for ever.
    """

    folder: Path
    then: Callable[["Meanwhile"], None]

    def __call__(self, run: Run, step: int, count: int) -> None:
        if state_transfer.parts is PARTS:
            self._hold_what_is_sent()
        if this_is(JOINING_WORKER):
            return
        if step == AT and count == 0:
            self.note("held")
            wait_for(self.folder / "go")
        if step == AT + 1 and count == 0 and run.world_size == len("abn"):
            self.note("computing")
            self.then(self)

    def note(self, name: str) -> None:
        (self.folder / name).touch()

    def _hold_what_is_sent(self) -> None:
        take = state_transfer.receive

        def held(tensors: Sequence[Tensor], part_bytes: int) -> Iterator[list[Tensor]]:
            wait_for(self.folder / "computing")
            yield from PARTS(tensors, part_bytes)

        def noted(*args: object, **mates: object) -> None:
            self.note("taking")
            take(*args, **mates)  # type: ignore[arg-type]
            self.note("taken")

        state_transfer.parts = held
        state_transfer.receive = noted


PARTS = state_transfer.parts


def until_taken(meanwhile: Meanwhile) -> None:
    wait_for(meanwhile.folder / "taken")


def join(jobs: Jobs, plan: Plan, folder: Path, training: Callable[..., Trained] = train) -> Job:
    """Two workers train, and a third is about to get the state."""
    job = jobs.start(training, plan, workers="ab")
    job.until((folder / "held").exists)
    job.bring_in(How.BOUNDARY, "a", JOINING_WORKER, "b")
    (folder / "go").touch()
    return job


def test_the_state_is_sent_amid_the_next_forward_and_is_that_before_it(
    jobs: Jobs, tmp_path: Path
) -> None:
    plan = replace(PLAN, nuisance=Meanwhile(tmp_path, until_taken))
    assert_undisturbed(plan, join(jobs, plan, tmp_path), "a", JOINING_WORKER, "b")


def test_with_sums_in_any_order_all_have_the_same_state(jobs: Jobs, tmp_path: Path) -> None:
    plan = replace(PLAN, nuisance=Meanwhile(tmp_path, until_taken), deterministic=False)
    ended = join(jobs, plan, tmp_path).ended("a", JOINING_WORKER, "b")
    assert [one.error for one in ended] == [""] * 3, ended[1].said
    assert len({one.value.digest for one in ended}) == 1
    assert undisturbed(plan).losses == pytest.approx(ended[0].value.losses, abs=1e-3)


@dataclass(frozen=True)
class DieGiving:
    """One of those who give dies amid it; the other one goes on."""

    worker: str

    def __call__(self, meanwhile: Meanwhile) -> None:
        wait_for(meanwhile.folder / "taking")
        if this_is(self.worker):
            die()


@pytest.mark.parametrize("source", ["a", "b"])
def test_one_of_those_who_give_dies_amid_it_and_the_joining_worker_gets_all_of_it_anew(
    jobs: Jobs, tmp_path: Path, source: str
) -> None:
    plan = replace(PLAN, nuisance=Meanwhile(tmp_path, DieGiving(source)))
    job = join(jobs, plan, tmp_path)
    job.until_dead(source)
    (other,) = {"a", "b"} - {source}
    job.publish(How.ABORT, JOINING_WORKER, other)
    assert_undisturbed(plan, job, JOINING_WORKER, other)


def go_on(_meanwhile: Meanwhile) -> None:
    """To where the joining worker is needed."""


@dataclass(frozen=True)
class DieTaking(Meanwhile):
    """The joining worker dies amid it."""

    @override
    def __call__(self, run: Run, step: int, count: int) -> None:
        super().__call__(run, step, count)
        if this_is(JOINING_WORKER):
            state_transfer.receive = lambda *_, **__: die()


def test_a_joining_worker_dies_amid_it_and_the_others_go_on(jobs: Jobs, tmp_path: Path) -> None:
    plan = replace(PLAN, nuisance=DieTaking(tmp_path, go_on))
    job = join(jobs, plan, tmp_path)
    job.until_dead(JOINING_WORKER)
    job.publish(How.ABORT, "b", "a")
    assert_undisturbed(plan, job, "a", "b")


def until_told(meanwhile: Meanwhile) -> None:
    wait_for(meanwhile.folder / "told")


def test_another_change_comes_amid_it_and_the_joining_worker_begins_anew(
    jobs: Jobs, tmp_path: Path
) -> None:
    plan = replace(PLAN, nuisance=Meanwhile(tmp_path, until_told))
    job = join(jobs, plan, tmp_path)
    job.until((tmp_path / "computing").exists)
    job.publish(How.ABORT, JOINING_WORKER, "b", "a")
    (tmp_path / "told").touch()
    assert_undisturbed(plan, job, "a", JOINING_WORKER, "b")


def test_small_tensors_go_together_and_a_large_one_as_it_is() -> None:
    small, large, whole = torch.zeros(2), torch.zeros(9), torch.zeros(1, dtype=torch.int64)
    parts = state_transfer.parts([small, small, large, small, whole, whole], 16)
    assert [[one.numel() for one in part] for part in parts] == [[2, 2], [9], [2], [1, 1]]


def test_what_lies_on_several_devices_is_sent_from_one() -> None:
    meta = torch.device("meta")
    counters, moments = torch.zeros(2), torch.zeros(3, device=meta)
    sent = state_transfer._together([counters, moments], meta)
    assert (sent.device, sent.numel()) == (meta, 5)
