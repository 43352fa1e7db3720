"""A process whose device computes wrong numbers is found, before its numbers are applied."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from spotrun.wire import WRONG_DEVICE, How
from spotrun_trainer.run import Run
from tests.support.processes.trainer_world import Ended, run_alone, run_world
from tests.unit.trainer.run.elastic import Jobs
from tests.unit.trainer.run.scripts import CLASSES, FEATURES, Plan, Trained, dataset, train
from tests.unit.trainer.run.test_worlds import PLAN, Hold, assert_undisturbed, undisturbed

CHECKED = replace(PLAN, check_devices=1)


@dataclass(frozen=True)
class Fault:
    """A device that changes one bit of one number of a gradient."""

    rank: int
    steps: range = range(3, 100)
    at: range = range(1_000_000)
    """Which of the gradients that it computes in these steps it changes."""


def train_on(plan: Plan, fault: Fault) -> Trained:
    """Train on a device with a fault."""
    own_rank, computed = int(os.environ["RANK"]), 0

    def keep(made: tuple[Run, nn.Module]) -> None:
        run, model = made

        def change(gradient: Tensor) -> Tensor:
            nonlocal computed
            if own_rank != fault.rank or run.step + 1 not in fault.steps:
                return gradient
            computed += 1
            if computed - 1 not in fault.at:
                return gradient
            gradient = gradient.clone()
            bits = gradient.view(torch.int32).flatten()
            bits[0] ^= 1 << 20
            return gradient

        next(model.parameters()).register_hook(change)  # type: ignore[no-untyped-call]

    return train(plan, keep)


def trained_on(size: int, plan: Plan, fault: Fault) -> list[Ended]:
    return run_world(size, train_on, plan, fault)


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_check_changes_no_bit(size: int, every: int) -> None:
    plan = replace(PLAN, check_devices=every)
    for ended in trained_on(size, plan, Fault(rank=-1)):
        assert ended.error == "", ended.said
        assert (ended.value.digest, ended.value.losses) == (
            undisturbed(PLAN).digest,
            undisturbed(PLAN).losses,
        )


def test_without_a_check_nobody_learns_of_it() -> None:
    for ended in trained_on(3, PLAN, Fault(rank=1)):
        assert ended.error == ""
        assert ended.value.digest != undisturbed(PLAN).digest


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_of_three_the_one_that_is_wrong_again_and_again_ends(rank: int) -> None:
    ended = trained_on(3, CHECKED, Fault(rank))
    for number, one in enumerate(ended):
        assert ("WrongDeviceError" in one.error) == (number == rank), one.said
    assert f"{WRONG_DEVICE}: the CPU of " in ended[rank].error
    assert "than 2 of 3 processes" in ended[rank].error


@pytest.mark.parametrize(
    ("rank", "size", "at"),
    [
        pytest.param(0, 2, 3, id="the last of its four microbatches"),
        pytest.param(1, 2, 3, id="the same of the other one"),
        pytest.param(1, 2, 4, id="the one that it computes again for the other one"),
        pytest.param(2, 3, 1, id="the last of its two microbatches"),
    ],
)
def test_a_single_wrong_result_is_computed_again(rank: int, size: int, at: int) -> None:
    ended = trained_on(size, CHECKED, Fault(rank, at=range(at, at + 1)))
    for one in ended:
        assert one.error == "", one.said
        assert one.value.digest == undisturbed(PLAN).digest
    assert "nothing of it is applied, and all processes compute this microbatch" in ended[0].said
    assert f"rank {rank} computed a wrong gradient once" in ended[0].said


def test_the_second_wrong_result_is_the_last() -> None:
    # It has two microbatches, and a third to compute again: its last one is wrong in the third
    # step, right in the repetition, and wrong in the fourth.
    ended = trained_on(3, CHECKED, Fault(2, at=range(1, 100, 5)))
    assert "rank 2 computed a wrong gradient once" in ended[0].said
    assert "WrongDeviceError" in ended[2].error


def saved_in(place: Path) -> set[int]:
    """The steps of all complete checkpoints."""
    return {int(one.name.split("-")[1].split(".")[0]) for one in place.glob("step-*")}


@pytest.mark.parametrize(
    ("first_wrong", "saved"),
    [
        pytest.param(3, set[int](), id="it is found in the step after the save was due"),
        pytest.param(4, {3}, id="what was saved is older than the fault"),
        pytest.param(100, {3, 6}, id="no fault: the next one is due after five steps, the last"),
    ],
)
def test_a_checkpoint_waits_for_a_step_that_is_checked(
    first_wrong: int, saved: set[int], tmp_path: Path
) -> None:
    plan = replace(PLAN, check_devices=1000, checkpoint=str(tmp_path), every="2 steps")
    ended = trained_on(3, plan, Fault(1, range(first_wrong, 101)))
    assert ("WrongDeviceError" in ended[1].error) == (first_wrong < 100), ended[1].said
    assert saved_in(tmp_path) == saved


def test_two_processes_cannot_say_which_of_them_is_wrong() -> None:
    for ended in trained_on(2, CHECKED, Fault(rank=1)):
        assert "UndecidedError" in ended.error, ended.said
        assert "no result has a majority" in ended.error


def test_a_step_that_is_different_each_time_is_no_fault_of_a_device() -> None:
    ended = run_world(3, train_with_noise, CHECKED)
    assert all("UndecidedError" in one.error for one in ended), [one.error for one in ended]
    assert "the step is not deterministic" in ended[0].error


def train_with_noise(plan: Plan) -> Trained:
    """Train with gradients that depend on the process, as with a generator that nobody seeds."""
    generator = torch.Generator().manual_seed(os.getpid())

    def keep(made: tuple[Run, nn.Module]) -> None:
        noise = torch.rand((), generator=generator)
        parameter = next(made[1].parameters())
        parameter.register_hook(lambda gradient: gradient + noise)  # type: ignore[no-untyped-call]

    return train(plan, keep)


def train_in_phases(plan: Plan) -> Trained:
    """Train two optimizers, each in a phase of its own, on the same microbatches."""
    run = Run(1, deterministic=True, check_devices=plan.check_devices)
    model = run.prepare(nn.Linear(FEATURES, CLASSES))
    first, second = (torch.optim.SGD([one], lr=0.1) for one in model.parameters())
    run.track(model=model, first=first, second=second)
    losses = []
    for step in run.steps(dataset(), global_batch=16, microbatch=2, total=4, num_workers=0):
        with step:
            for name, optimizer in (("first", first), ("second", second)):
                with step.phase(name):
                    for features, classes in step:
                        loss = functional.cross_entropy(model(features), classes)
                        step.backward(loss, mean_of=len(classes))
                    step.update(optimizer)
                losses.append(step.loss.item())
    return Trained(losses, dict(model.state_dict()))


def test_only_the_first_phase_of_a_step_computes_a_microbatch_again() -> None:
    alone = run_alone(train_in_phases, PLAN).value
    for ended in run_world(2, train_in_phases, CHECKED):
        assert ended.error == "", ended.said
        assert (ended.value.digest, ended.value.losses) == (alone.digest, alone.losses)


def test_more_processes_than_microbatches_are_checked_too() -> None:
    plan = replace(CHECKED, global_batch=4)
    alone = run_alone(train, replace(plan, check_devices=None)).value
    assert {one.value.digest for one in trained_on(3, plan, Fault(rank=-1))} == {alone.digest}


def test_the_others_go_on_without_it_with_the_bits_of_an_undisturbed_training(
    jobs: Jobs,
) -> None:
    job = jobs.start(train_on, CHECKED, Fault(rank=1), workers=("a", "b", "c"))
    job.until_dead("b")
    job.publish(How.ABORT, "a", "c")
    assert_undisturbed(PLAN, job, "a", "c")


def test_a_worker_that_joins_is_checked_as_soon_as_it_computes(jobs: Jobs, tmp_path: Path) -> None:
    plan = replace(PLAN, check_devices=1000, nuisance=Hold(tmp_path))
    job = jobs.start(train_on, plan, Fault(2, range(1, 100)), workers="ab")
    job.bring_in(How.BOUNDARY, *"abc")
    (tmp_path / "go").touch()
    job.until_dead("c")
    job.publish(How.ABORT, *"ab")
    assert_undisturbed(PLAN, job, *"ab")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"check_devices": 0, "deterministic": True}, "number of steps between two checks"),
        ({"check_devices": "often", "deterministic": True}, "check_devices='often': give the"),
        ({"check_devices": 10}, "Run(deterministic=True, check_devices=...)"),
        ({"check_devices": 10, "deterministic": True, "shards": 2}, "if Run(shards=...) is above"),
    ],
)
def test_what_it_cannot_check_is_refused(how: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said.replace("(", r"\(").replace(")", r"\)")):
        Run(**how)  # type: ignore[arg-type]
