"""What comes out is what plain PyTorch computes, however many processes compute it."""

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from spotrun_trainer import Run
from spotrun_trainer.data.order.shuffle import Order
from spotrun_trainer.process.rng import seed_all
from tests.support.processes.trainer_world import run_alone, run_world
from tests.unit.trainer.run.scripts import (
    FEATURES,
    SAMPLES,
    Plan,
    Trained,
    dataset,
    train,
    train_by_hand,
)

PLAIN = Plan(clip=0.5, with_adam=False)


def trained(size: int, plan: Plan) -> list[Trained]:
    """What each of so many processes has in the end."""
    ended = run_world(size, train, plan) if size > 1 else [run_alone(train, plan)]
    assert [""] * size == [one.error for one in ended], ended[0].said
    return [one.value for one in ended]


def assert_close(expected: Trained, actual: Trained, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(actual.losses, expected.losses, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(actual.weights, expected.weights, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_losses_and_weights_are_those_of_a_loop_written_by_hand(size: int) -> None:
    for one in trained(size, PLAIN):
        assert_close(train_by_hand(PLAIN), one)


def test_all_processes_have_the_same_bits() -> None:
    assert len({one.digest for one in trained(3, PLAIN)}) == 1


@pytest.mark.parametrize("size", [2, 3])
def test_dropout_and_running_statistics_do_not_depend_on_the_number_of_processes(size: int) -> None:
    plan = Plan(with_batch_norm=True, with_dropout=True)
    (alone,) = trained(1, plan)
    for one in trained(size, plan):
        assert_close(alone, one)


def test_deterministic_mode_gives_the_same_bits_at_every_number_of_processes() -> None:
    plan = Plan(deterministic=True, with_batch_norm=True, with_dropout=True, clip=0.5)
    everywhere = [one for size in (1, 2, 3, 4) for one in trained(size, plan)]
    assert len({one.digest for one in everywhere}) == 1
    assert len({tuple(one.losses) for one in everywhere}) == 1


def test_without_deterministic_mode_bits_differ() -> None:
    # Or the test above would prove nothing.
    plan = Plan(with_batch_norm=True, with_dropout=True, clip=0.5)
    assert len({one.digest for size in (1, 2, 3) for one in trained(size, plan)}) > 1


def test_more_processes_than_microbatches_are_said_and_compute_the_same() -> None:
    plan = Plan(global_batch=4, with_adam=False)
    ended = run_world(3, train, plan)
    assert "3 processes share 2 microbatches, so 1 of them" in ended[0].said
    for one in ended:
        assert_close(train_by_hand(plan), one.value)


def test_more_processes_than_microbatches_compute_the_same_bits_in_deterministic_mode() -> None:
    plan = Plan(global_batch=4, deterministic=True)
    assert len({one.digest for size in (1, 3) for one in trained(size, plan)}) == 1


def small_gradients() -> float:
    """The gradient of a bfloat16 weight, to which 256 microbatches give 1 and then 1/256 each."""
    run = Run()
    weight = nn.Parameter(torch.zeros((), dtype=torch.bfloat16))
    model = nn.Module()
    model.weight = weight
    optimizer = torch.optim.SGD([weight], lr=1.0)
    run.track(model=model, optimizer=optimizer)
    factors = TensorDataset(torch.tensor([1.0] + [1 / 256] * 255))
    for step in run.steps(
        factors, global_batch=256, microbatch=1, total=1, num_workers=0, shuffle=False
    ):
        with step:
            for (factor,) in step:
                step.backward((weight.float() * factor).sum(), weight=1 / 256)
            step.update(optimizer)
    return -weight.item()


@pytest.mark.parametrize("size", [1, 2])
def test_gradients_of_a_bfloat16_model_are_added_up_in_float32(size: int) -> None:
    ended = run_world(size, small_gradients)
    # In bfloat16 1 + 1/256 is 1, so the sum would not move.
    assert [torch.tensor(1 + 255 / 256).bfloat16().item()] * size == [one.value for one in ended]


def parameters_without_gradients() -> tuple[float, float]:
    """Weight decay moves what has a gradient; of two others rank 0 alone uses the first."""
    run = Run()
    model = nn.ParameterList([nn.Parameter(torch.ones(1)) for _ in range(3)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, weight_decay=0.5)
    run.track(model=model, optimizer=optimizer)
    numbers = TensorDataset(torch.arange(2.0))
    for step in run.steps(
        numbers, global_batch=2, microbatch=1, total=1, num_workers=0, shuffle=False
    ):
        with step:
            for (number,) in step:
                loss = model[0] * number
                step.backward(loss + model[1] if number == 0 else loss, weight=1)
            step.update(optimizer)
    return model[1].item(), model[2].item()


@pytest.mark.parametrize("size", [1, 2])
def test_a_parameter_that_only_some_processes_used_is_updated_by_all_and_an_unused_one_by_none(
    size: int,
) -> None:
    ended = run_world(size, parameters_without_gradients)
    assert [(0.0, 1.0)] * size == [one.value for one in ended]


def two_losses_with_phases() -> list[float]:
    """Two players, each with its own loss on the same microbatches, as in a GAN."""
    run = Run()
    one, other = (nn.Linear(FEATURES, 1) for _ in range(2))
    optimizers = [torch.optim.SGD(player.parameters(), lr=0.1) for player in (one, other)]
    run.track(one=one, other=other, first=optimizers[0], second=optimizers[1])
    losses = []
    for step in run.steps(dataset(), global_batch=8, microbatch=2, total=3, num_workers=0):
        with step:
            with step.phase("one"):
                for features, _ in step:
                    step.backward((one(features) - other(features)).square().sum(), weight=2)
                step.update(optimizers[0])
                losses.append(step.loss.item())
            with step.phase("other"):
                for features, _ in step:
                    step.backward((other(features) - one(features) - 1).abs().sum(), weight=2)
                step.update(optimizers[1], clip=0.5)
                losses.append(step.loss.item())
    return losses


def two_losses_by_hand() -> list[float]:
    seed_all(0, 0)
    one, other = (nn.Linear(FEATURES, 1) for _ in range(2))
    optimizers = [torch.optim.SGD(player.parameters(), lr=0.1) for player in (one, other)]
    features, _ = dataset().tensors
    order = Order(SAMPLES, seed=0, shuffle=True)
    losses = []
    for step in range(3):
        batch = features[[order.sample(8 * step + sample).index for sample in range(8)]]
        loss = (one(batch) - other(batch)).square().mean()
        losses.append(loss.item())
        loss.backward()
        optimizers[0].step()
        other.zero_grad()
        loss = (other(batch) - one(batch) - 1).abs().mean()
        losses.append(loss.item())
        loss.backward()
        nn.utils.clip_grad_norm_(other.parameters(), 0.5)
        optimizers[1].step()
        one.zero_grad()
        other.zero_grad()
    return losses


@pytest.mark.parametrize("size", [1, 3])
def test_two_optimizers_take_turns_in_phases_of_a_step(size: int) -> None:
    for ended in run_world(size, two_losses_with_phases):
        assert ended.error == "", ended.said
        torch.testing.assert_close(ended.value, two_losses_by_hand(), rtol=1e-5, atol=1e-6)


def strayed(backwards: bool) -> float:
    """A backward before the loop, and one after each step, as sanity checks make them."""
    run = Run()
    model = run.prepare(nn.Linear(FEATURES, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run.track(model=model, optimizer=optimizer)

    def stray() -> None:
        if backwards:
            model(torch.ones(4, FEATURES)).sum().backward()

    stray()
    for step in run.steps(dataset(), global_batch=8, microbatch=2, total=3, num_workers=0):
        with step:
            for features, _ in step:
                step.backward(model(features).square().sum(), weight=2)
            step.update(optimizer)
        stray()
    return model.weight.double().sum().item()


@pytest.mark.parametrize("size", [1, 2])
def test_gradients_from_outside_a_step_are_no_part_of_it(size: int) -> None:
    expected = run_alone(strayed, False).value
    for one in run_world(size, strayed, True):
        assert expected == pytest.approx(one.value, rel=1e-5)
