"""A training begins with weights of another program, and goes on from its own checkpoints."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from spotrun_trainer import Run
from tests.support.processes.trainer_world import Ended, run_alone
from tests.unit.trainer.run.begun import Made, first_step
from tests.unit.trainer.run.scripts import CLASSES, FEATURES, dataset


def begun_with(
    weights: str, checkpoint: str | None
) -> tuple[Run, nn.Linear, torch.optim.Optimizer]:
    run = Run(1, checkpoint=checkpoint, every="1 steps")
    model = run.prepare(nn.Linear(FEATURES, CLASSES))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    run.track(model=model, optimizer=optimizer)
    run.load(model, weights)
    return run, model, optimizer


def train_from(weights: str, checkpoint: str | None, total: int) -> Tensor:
    """Returns the weight at the end."""
    run, model, optimizer = begun_with(weights, checkpoint)
    for step in run.steps(dataset(), global_batch=8, microbatch=4, total=total, num_workers=0):
        with step:
            for features, classes in step:
                step.backward(functional.cross_entropy(model(features), classes), mean_of=4)
            step.update(optimizer)
    return model.weight.detach().clone()


def teach(weights: str, checkpoint: str) -> tuple[Tensor, Tensor]:
    """Returns the weights of a tracked model and of another one, as they were loaded."""
    run, student, _ = begun_with(weights, checkpoint)
    teacher = run.prepare(nn.Linear(FEATURES, CLASSES))
    run.load(teacher, weights)
    return student.weight.detach().clone(), teacher.weight.detach().clone()


def lose_the_checkpoint(weights: str, checkpoint: str) -> None:
    run, _, _ = begun_with(weights, checkpoint)
    shutil.rmtree(checkpoint)
    next(run.steps(dataset(), global_batch=8, microbatch=4, total=9, num_workers=0))


@pytest.fixture
def weights(tmp_path: Path) -> tuple[str, Tensor]:
    torch.manual_seed(99)
    model = nn.Linear(FEATURES, CLASSES)
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    return str(tmp_path / "weights.pt"), model.weight.detach()


def ended_well(function: Callable[..., object], *arguments: object) -> Ended:
    ended = run_alone(function, *arguments)
    assert not ended.error, ended.said
    return ended


def test_a_training_goes_on_from_its_checkpoint_and_not_from_the_weights(
    tmp_path: Path, weights: tuple[str, Tensor]
) -> None:
    path, weight = weights
    checkpoint = str(tmp_path / "checkpoints")
    first = ended_well(train_from, path, checkpoint, 2)
    assert f"2 tensors loaded from {path}" in first.said
    second = ended_well(train_from, path, checkpoint, 4)
    assert f"{path} is not read: the training continues from step-2.g0" in second.said

    assert not torch.equal(first.value, weight)
    assert torch.equal(second.value, ended_well(train_from, path, None, 4).value)
    student, teacher = ended_well(teach, path, checkpoint).value
    assert torch.equal(teacher, weight)  # no checkpoint has it
    assert not torch.equal(student, weight)
    lost = run_alone(lose_the_checkpoint, path, checkpoint)
    assert "run.load read nothing, because step-4.g0 was in" in lost.error


def test_what_does_not_fit_names_the_path_and_the_model(
    made: Made, weights: tuple[str, Tensor]
) -> None:
    run, model, _ = made
    with pytest.raises(ValueError, match=r"run\.load cannot load .*\.pt into the Linear: wei"):
        run.load(model, weights[0])


def test_weights_are_loaded_before_the_loop(made: Made, weights: tuple[str, Tensor]) -> None:
    run, model, _ = made
    first_step(run)
    with pytest.raises(ValueError, match=r"run\.load was called after run\.steps"):
        run.load(model, weights[0])
