"""The API as a script uses it."""

import os
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from typing_extensions import override

from spotrun_trainer import Run
from tests.support.processes.trainer_world import run_alone, run_world
from tests.unit.trainer.run.begun import Made, first_step
from tests.unit.trainer.run.scripts import FEATURES, dataset


def test_an_exception_in_a_step_comes_out_as_it_is(made: Made) -> None:
    run, _, _ = made
    with pytest.raises(ZeroDivisionError), first_step(run) as step:
        assert 1 // len(list(step)[2:])


def test_an_exception_of_the_dataset_comes_out(made: Made) -> None:
    class Broken(Dataset[Tensor]):
        def __len__(self) -> int:
            return 8

        @override
        def __getitem__(self, index: int) -> Tensor:
            raise OSError("no such picture")

    run, _, _ = made
    steps = run.steps(Broken(), global_batch=4, microbatch=2, total=1, num_workers=0)
    with pytest.raises(OSError, match="no such picture"), next(steps) as step:
        list(step)


def test_every_is_true_at_multiples_of_done_steps_only(made: Made) -> None:
    run, model, optimizer = made
    found = []
    for step in run.steps(dataset(), global_batch=4, microbatch=2, total=6, num_workers=0):
        with step:
            inside = run.every(1)
            for features, _ in step:
                step.backward(model(features).sum(), weight=2)
            step.update(optimizer)
        found.append((step.number, inside, run.every(2), run.every(3)))
    assert found == [(n, False, n % 2 == 0, n % 3 == 0) for n in range(1, 7)]


def test_an_endless_training_ends_when_it_is_told_to(made: Made) -> None:
    run, model, optimizer = made
    for step in run.steps(dataset(), global_batch=4, microbatch=2, num_workers=0):
        with step:
            for features, _ in step:
                step.backward(model(features).sum(), weight=2)
            step.update(optimizer)
        if step.number == 3:
            run.stop()
    assert run.step == 4


def test_two_optimizers_of_one_loss_are_updated_together(made: Made) -> None:
    run, model, _ = made
    other = nn.Linear(FEATURES, 1, bias=False)
    second = torch.optim.SGD(other.parameters(), lr=0.1)
    run.track(other=other, second=second)
    before = model.weight.clone(), other.weight.clone()
    with first_step(run) as step:
        for features, _ in step:
            step.backward((model(features) + other(features)).sum(), weight=2)
        step.update(made[2], second, clip=1e-3)
    changes = torch.cat([model.weight - before[0], other.weight - before[1]])
    # One norm over both: the bias of the first has a share as well.
    assert 0 < changes.norm().item() <= 1e-4 + 1e-7
    torch.testing.assert_close(changes[0], changes[1], rtol=1e-2, atol=1e-7)


def test_random_numbers_outside_of_microbatches_are_the_same_everywhere() -> None:
    draws = [ended.value for ended in run_world(2, draw)]
    inside, outside = zip(*draws, strict=True)
    assert outside[0] == outside[1]
    assert not set(inside[0]) & set(inside[1])


def draw() -> tuple[list[float], list[float]]:
    run = Run(seed=3)
    model = run.prepare(nn.Linear(FEATURES, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run.track(model=model, optimizer=optimizer)
    inside, outside = [], [torch.rand(()).item()]
    for step in run.steps(dataset(), global_batch=8, microbatch=2, total=2, num_workers=0):
        with step:
            outside.append(torch.rand(()).item())
            for features, _ in step:
                inside.append(torch.rand(()).item())
                step.backward(model(features).sum(), weight=2)
            outside.append(torch.rand(()).item())
            step.update(optimizer)
    return inside, outside


def prepare_once(directory: str) -> list[str]:
    run = Run()
    mine = Path(directory) / str(run.rank)

    def prepare() -> list[str]:
        others = sorted(path.name for path in Path(directory).iterdir())
        mine.touch()
        return others

    return run.once(prepare)


def test_one_process_of_a_worker_prepares_before_the_others(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "data").mkdir()
    env = {"TMPDIR": str(tmp_path / "tmp")}
    found = [one.value for one in run_world(3, prepare_once, str(tmp_path / "data"), env=env)]
    first, *others = sorted(map(len, found))
    assert first == 0
    assert min(others) >= 1


def weights_of_rank(seed_by_rank: bool) -> list[float]:
    run = Run()
    rank = int(os.environ["RANK"])
    torch.manual_seed(rank)
    model = run.prepare(nn.Linear(2, 2 if seed_by_rank else 2 + rank))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    run.track(model=model, optimizer=optimizer)
    next(run.steps(dataset(), global_batch=4, microbatch=2, total=1, num_workers=0))
    return [value for row in model.weight.tolist() for value in row]


def test_all_begin_with_the_weights_of_rank_0() -> None:
    first, second = run_world(2, weights_of_rank, True)
    assert first.value is not None
    assert first.value == second.value


def test_processes_that_build_different_models_are_told_so() -> None:
    for ended in run_world(2, weights_of_rank, False):
        assert "the processes track different objects" in ended.error


def diverge(deterministic: bool) -> None:
    run = Run(deterministic=deterministic)
    model = run.prepare(nn.Linear(FEATURES, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run.track(model=model, optimizer=optimizer)
    for step in run.steps(dataset(), global_batch=4, microbatch=2, total=101, num_workers=0):
        with step:
            for features, _ in step:
                step.backward(model(features).sum(), weight=2)
            step.update(optimizer)
        if step.number == 50 and run.rank == 1:
            model.weight.data[0, 0] += 1e-3


@pytest.mark.parametrize("deterministic", [True, False])
def test_weights_that_have_drifted_apart_are_an_error(deterministic: bool) -> None:
    for ended in run_world(2, diverge, deterministic):
        assert "no longer hold the same weights" in ended.error


def schedule_on_one_rank() -> int:
    run = Run()
    model = run.prepare(nn.Linear(FEATURES, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run.track(model=model, optimizer=optimizer)
    if run.rank == 1:
        optimizer.param_groups[0]["lr"] = 0.05
    steps = run.steps(dataset(), global_batch=4, microbatch=2, total=2, num_workers=0)
    with next(steps) as step:
        for features, _ in step:
            step.backward(model(features).sum(), weight=2)
        step.update(optimizer)
    return run.step


def test_another_learning_rate_is_an_error_before_it_is_used() -> None:
    for ended in run_world(2, schedule_on_one_rank):
        assert "use other learning rates" in ended.error


def late_backward() -> None:
    """Two backwards of the last microbatch, which no step had before."""
    run = Run()
    model = run.prepare(nn.Linear(FEATURES, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run.track(model=model, optimizer=optimizer)
    for step in run.steps(dataset(), global_batch=4, microbatch=2, total=3, num_workers=0):
        with step:
            for features, _ in step:
                for _ in range(2 if step.number == 3 else 1):
                    step.backward(model(features).sum(), weight=2)
            step.update(optimizer)


def test_a_second_backward_after_gradients_were_sent_is_said() -> None:
    for ended in run_world(2, late_backward):
        assert "went through backward twice, which none before did" in ended.error


def unfreeze(backwards: int) -> list[float]:
    """A part of the model begins to learn in the third step."""
    run = Run()
    model = run.prepare(nn.Sequential(nn.Linear(FEATURES, 2), nn.Linear(2, 1)))
    first = model.get_parameter("0.weight")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[0].requires_grad_(False)
    run.track(model=model, optimizer=optimizer)
    for step in run.steps(dataset(), global_batch=8, microbatch=2, total=4, num_workers=0):
        model[0].requires_grad_(step.number >= 3)
        with step:
            for features, _ in step:
                for _ in range(backwards):
                    step.backward(model(features).square().sum() / backwards, weight=2 / backwards)
            step.update(optimizer)
    values: list[float] = first.flatten().tolist()
    return values


@pytest.mark.parametrize("backwards", [1, 2])
def test_parameters_may_be_unfrozen_and_a_microbatch_may_have_several_backwards(
    backwards: int,
) -> None:
    alone = run_alone(unfreeze, 1).value
    for ended in run_world(2, unfreeze, backwards):
        assert ended.error == "", ended.said
        assert ended.value == pytest.approx(alone, rel=1e-4)


def frozen_after_a_look() -> list[float]:
    """A part of the model has a gradient, of this process alone, and is frozen before any step."""
    run = Run()
    model = run.prepare(nn.Sequential(nn.Linear(FEATURES, 2), nn.Linear(2, 1)))
    first = model.get_parameter("0.weight")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(1, FEATURES)).sum().backward()
    model[0].requires_grad_(False)
    before = first.clone()
    run.track(model=model, optimizer=optimizer)
    for step in run.steps(dataset(), global_batch=8, microbatch=2, total=2, num_workers=0):
        with step:
            for features, _ in step:
                step.backward(model(features).square().sum(), weight=2)
            step.update(optimizer)
    values: list[float] = (first - before).flatten().tolist()
    return values


@pytest.mark.parametrize("size", [1, 2])
def test_what_is_frozen_rests_though_it_had_a_gradient_before(size: int) -> None:
    for ended in run_world(size, frozen_after_a_look):
        assert ended.error == "", ended.said
        assert ended.value == [0.0] * 2 * FEATURES


def trained_by(kind: str) -> list[float]:
    """Of microbatches of 2 samples each the loss as a sum, or as its mean."""
    run = Run()
    model = run.prepare(nn.Linear(FEATURES, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run.track(model=model, optimizer=optimizer)
    losses = []
    for step in run.steps(dataset(), global_batch=8, microbatch=2, total=3, num_workers=0):
        with step:
            for features, _ in step:
                loss = model(features).square()
                if kind == "sum":
                    step.backward(loss.sum(), weight=len(features))
                else:
                    step.backward(loss.mean(), mean_of=len(features))
            step.update(optimizer)
            losses.append(step.loss.item())
    return [*losses, *model.weight.flatten().tolist()]


def test_a_mean_of_so_many_trains_as_their_sum_does() -> None:
    expected = run_alone(trained_by, "sum").value
    assert expected == pytest.approx(run_alone(trained_by, "mean").value, rel=1e-5)
