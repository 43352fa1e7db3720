"""Gradients are on their way while the last backward still computes others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from spotrun.wire import How
from spotrun_trainer import Run
from spotrun_trainer.step import step_context
from spotrun_trainer.step.gradients import BucketedGradients
from spotrun_trainer.step.step import Step
from tests.support.processes.trainer_world import run_alone, run_world
from tests.unit.trainer.run.elastic import Jobs
from tests.unit.trainer.run.scripts import FEATURES, dataset
from tests.unit.trainer.run.test_joining_workers import wait_for
from tests.unit.trainer.step.test_gradients import WrittenDown, bucketed, expect_last, layers

Loss = Callable[[nn.Sequential], Tensor]


def all_but(*unused: int) -> Loss:
    """A loss that depends on all layers but these."""

    def loss(model: nn.Sequential) -> Tensor:
        used = [layer for number, layer in enumerate(model) if number not in unused]
        return torch.stack([layer(torch.ones(1)).sum() for layer in used]).sum()

    return loss


def sent_in_backward(losses: Sequence[Loss]) -> tuple[list[int], list[list[float] | None]]:
    """How many of four buckets were on their way before a step's backward ended; the last sums."""
    model, group = layers([4, 4, 4, 4]), WrittenDown()
    gradients, sent = bucketed(model, group), []
    for loss in losses:
        gradients.drop()
        group.sizes.clear()
        expect_last(gradients)
        loss(model).backward()  # type: ignore[no-untyped-call]
        sent.append(len(group.sizes))
        gradients.take(0)
        gradients.reduce()
    sums = gradients.sums(some_missing=True)
    return sent, [one if one is None else one.flatten().tolist() for one in sums]


@pytest.mark.parametrize("unused", [0, 1, 3])
def test_a_parameter_that_is_not_used_holds_up_no_other(unused: int) -> None:
    sent, sums = sent_in_backward([all_but(unused)] * 2)
    assert sent == [0, 4]
    assert sums == [None if layer == unused else [2.0] * 4 for layer in (3, 2, 1, 0)]


def test_a_parameter_that_is_used_again_is_waited_for() -> None:
    sent, sums = sent_in_backward([all_but(0), all_but(0), all_but(), all_but(1), all_but(0, 1)])
    # The first step that lacks one shows that it may be lacking.
    assert sent == [0, 4, 4, 2, 4]
    assert sums == [[2.0] * 4, [2.0] * 4, None, None]


def frozen(number: int) -> Loss:
    """A loss with one layer frozen since the step began."""

    def loss(model: nn.Sequential) -> Tensor:
        model[number].requires_grad_(requires_grad=False)
        return all_but()(model)

    return loss


def test_a_parameter_that_is_frozen_within_the_step_holds_up_no_other() -> None:
    sent, sums = sent_in_backward([all_but(0), all_but(0), frozen(0)])
    assert sent == [0, 4, 4]
    assert sums == [[2.0] * 4] * 3 + [None]


def through_checkpoint(used: Sequence[int], model: nn.Sequential) -> Tensor:
    """A loss for which a backward runs in another: that does not know what this will compute."""

    def inner(x: Tensor) -> Tensor:
        return torch.stack([model[number](x).sum() for number in used]).sum()

    x = torch.ones(1, requires_grad=True)
    loss: Tensor = checkpoint(inner, x, use_reentrant=True) + model[3](torch.ones(1)).sum()
    return loss


def test_where_a_backward_runs_in_another_what_was_unused_once_is_waited_for() -> None:
    first, all_of_them = partial(through_checkpoint, [0]), partial(through_checkpoint, [0, 1, 2])
    _, sums = sent_in_backward([first, first, all_of_them])
    assert sums == [[2.0] * 4] * 4


def network() -> nn.Sequential:
    torch.manual_seed(1)
    sizes = [(FEATURES, 8), (8, 8), (8, 8), (8, 3)]
    return nn.Sequential(*(nn.Linear(*size) for size in sizes))


def split_by_dimensions(model: nn.Sequential) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Matrices, and the rest: what gets another optimizer, or no weight decay."""
    parameters = list(model.parameters())
    return (
        [one for one in parameters if one.dim() > 1],
        [one for one in parameters if one.dim() == 1],
    )


def two_optimizers(model: nn.Sequential) -> list[torch.optim.Optimizer]:
    """As Muon beside AdamW."""
    matrices, others = split_by_dimensions(model)
    return [torch.optim.SGD(matrices, lr=0.1), torch.optim.AdamW(others, lr=0.1)]


def two_groups(model: nn.Sequential) -> list[torch.optim.Optimizer]:
    """Weight decay for matrices only."""
    matrices, others = split_by_dimensions(model)
    groups: list[dict[str, Any]] = [{"params": matrices, "weight_decay": 0.1}, {"params": others}]
    return [torch.optim.SGD(groups, lr=0.1)]


def both(_step: int) -> slice:
    """Whose turn it is: all optimizers, always."""
    return slice(None)


def second_is_left_out_in_the_third_step(step: int) -> slice:
    """All processes have sent its gradients by then, or have to."""
    return slice(1) if step == 3 else slice(None)


@dataclass(frozen=True)
class Hold:
    """Those who were there first wait, amid a step, until somebody has come."""

    folder: Path

    def __call__(self, run: Run, step: Step) -> None:
        if step.number == 3 and run.world_size == len("ab"):
            (self.folder / "held").touch()
            wait_for(self.folder / "go")


def train_with(
    optimizers_of: Callable[[nn.Sequential], list[torch.optim.Optimizer]],
    turn: Callable[[int], slice],
    total: int,
    amid: Callable[[Run, Step], None] = lambda _run, _step: None,
) -> tuple[list[Tensor], list[int]]:
    """The weights, and how many buckets each step had sent before its last gradient."""
    sent = [0] * total
    vars(step_context)["BucketedGradients"] = partial(BucketedGradients, bucket_bytes=128)
    run = Run(seed=1)
    model = run.prepare(network())
    optimizers = optimizers_of(model)
    named: dict[str, Any] = {f"opt{number}": one for number, one in enumerate(optimizers)}
    run.track(model=model, **named)
    for step in run.steps(dataset(), global_batch=4, microbatch=2, total=total, num_workers=0):

        def count(_last_gradient: Tensor, step: Step = step) -> None:
            buckets = [bucket for one in step._context.all_gradients() for bucket in one.buckets]
            sent[step.number - 1] = sum(bucket.work is not None for bucket in buckets)

        first: Any = model[0].weight
        with step, first.register_hook(count):
            for x, y in step:
                loss = nn.functional.cross_entropy(model(x), y, reduction="sum")
                step.backward(loss, weight=len(y))
            amid(run, step)
            step.update(*optimizers[turn(step.number)])
    return [one.detach().cpu() for one in model.parameters()], sent


@pytest.mark.parametrize(("optimizers_of", "early"), [(two_optimizers, 3), (two_groups, 5)])
def test_with_two_optimizers_or_groups_later_layers_are_sent_before_the_first_one_is_computed(
    optimizers_of: Callable[[nn.Sequential], list[torch.optim.Optimizer]], early: int
) -> None:
    ended = run_world(2, train_with, optimizers_of, both, 3)
    assert [one.error for one in ended] == ["", ""], ended[0].said
    for one in ended:
        none, *others = one.value[1]
        assert none == 0
        assert min(others) >= early


@pytest.mark.gpu
def test_processes_that_share_a_gpu_end_with_the_weights_of_one_alone() -> None:
    alone = run_alone(train_with, two_optimizers, both, 5)
    ended = run_world(2, train_with, two_optimizers, both, 5)
    assert [one.error for one in (alone, *ended)] == [""] * 3, ended[0].said
    for one in ended:
        torch.testing.assert_close(one.value[0], alone.value[0], rtol=1e-4, atol=1e-4)
        assert min(one.value[1][1:]) >= 3


def test_an_optimizer_whose_turn_it_is_not_confuses_nobody() -> None:
    # Two microbatches for three processes: one of them sends what it did not compute.
    arguments = (two_optimizers, second_is_left_out_in_the_third_step, 5)
    alone = run_alone(train_with, *arguments).value[0]
    ended = run_world(3, train_with, *arguments)
    assert [one.error for one in ended] == [""] * 3, ended[0].said
    for one in ended:
        torch.testing.assert_close(one.value[0], alone, rtol=1e-5, atol=1e-5)


def test_a_joining_worker_sends_what_the_others_send_in_their_order(
    jobs: Jobs, tmp_path: Path
) -> None:
    job = jobs.start(train_with, two_optimizers, both, 8, Hold(tmp_path), workers="ab")
    job.until((tmp_path / "held").exists)
    job.bring_in(How.BOUNDARY, "a", "b", "n")
    (tmp_path / "go").touch()
    ended = job.ended("a", "b", "n")
    assert [one.error for one in ended] == [""] * 3, ended[2].said
    alone = run_alone(train_with, two_optimizers, both, 8).value[0]
    for one in ended:
        torch.testing.assert_close(one.value[0], alone, rtol=1e-5, atol=1e-5)
