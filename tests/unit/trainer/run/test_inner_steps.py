"""Inner steps: processes train by themselves, and agree at the end of the step, or not at all."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from spotrun.wire import How
from spotrun_trainer import Run
from spotrun_trainer.data.order.shuffle import Order
from spotrun_trainer.elastic import state_transfer
from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.step.reduce.compression import BF16, Compression
from tests.support.processes.trainer_world import run_alone, run_world
from tests.unit.trainer.run.begun import Made, first_step
from tests.unit.trainer.run.elastic import Job, Jobs, this_is
from tests.unit.trainer.run.scripts import SAMPLES, Nuisance, Plan, Trained, dataset, network
from tests.unit.trainer.run.test_joining_workers import (
    AT,
    JOINING_WORKER,
    Meanwhile,
    join,
    wait_for,
)
from tests.unit.trainer.run.test_worlds import DieInCollective, DieInForward


@dataclass(frozen=True)
class Inner(Plan):
    """A training with inner steps."""

    lr: float = 0.7  # of the outer optimizer
    momentum: float = 0.9
    inner_lr: float = 0.05
    with_momentum_inside: bool = True
    total: int = 5


PLAN = Inner()


def train(plan: Inner) -> Trained:
    """The loop as users write it."""
    run = Run(plan.seed, compress=plan.compress, checkpoint=plan.checkpoint, every=plan.every)
    model = run.prepare(network(plan))
    nesterov = plan.momentum > 0
    outer = torch.optim.SGD(
        model.parameters(), lr=plan.lr, momentum=plan.momentum, nesterov=nesterov
    )
    kind = torch.optim.AdamW if plan.with_momentum_inside else torch.optim.SGD
    inner = kind(model.parameters(), lr=plan.inner_lr)
    run.track(model=model, outer=outer)
    losses = []
    for step in run.steps(
        dataset(),
        global_batch=plan.global_batch,
        microbatch=plan.microbatch,
        total=plan.total,
        num_workers=0,
    ):
        with step:
            for count, (features, classes) in enumerate(step):
                step.backward(cross_entropy(model(features), classes), mean_of=len(classes))
                if plan.nuisance:
                    plan.nuisance(run, step.number, count)
                step.inner_update(inner, clip=plan.clip)
            if plan.nuisance:
                plan.nuisance(run, step.number, -1)
            step.update(outer)
            losses.append(step.loss.item())
    return Trained(losses, {name: value.cpu() for name, value in model.state_dict().items()})


def by_hand(plan: Inner) -> dict[str, torch.Tensor]:
    """A single process in plain PyTorch, whose outer optimizer takes the weights as they are."""
    features, classes = dataset().tensors
    order = Order(SAMPLES, seed=plan.seed, shuffle=True)
    model = network(plan)
    inner = torch.optim.AdamW(model.parameters(), lr=plan.inner_lr)
    for first in range(0, plan.total * plan.global_batch, plan.microbatch):
        batch = [order.sample(first + one).index for one in range(plan.microbatch)]
        inner.zero_grad()
        cross_entropy(model(features[batch]), classes[batch]).backward()  # type: ignore[no-untyped-call]
        inner.step()
    return model.state_dict()


def value_of(train_it: Callable[[Inner], Trained], plan: Inner) -> Trained:
    trained: Trained = run_alone(train_it, plan).value
    return trained


def test_alone_inner_steps_are_plain_steps() -> None:
    plan = replace(PLAN, lr=1.0, momentum=0.0)
    expected = by_hand(plan)
    for name, found in value_of(train, plan).weights.items():
        torch.testing.assert_close(found, expected[name], atol=1e-5, rtol=1e-4)


def test_one_step_of_sgd_each_is_one_step_of_all() -> None:
    """The mean of their ways is the way along the mean of their gradients."""
    plan = replace(PLAN, with_momentum_inside=False, momentum=0.0, lr=1.0, microbatch=8)
    alone = value_of(train, replace(plan, microbatch=16))
    for ended in run_world(2, train, plan):
        assert ended.error == "", ended.said
        assert ended.value.losses == pytest.approx(alone.losses, abs=1e-5)


@pytest.mark.parametrize("compress", [None, BF16()], ids=str)
def test_all_have_the_same_weights_also_who_has_nothing_to_compute(
    compress: Compression | None,
) -> None:
    plan = replace(PLAN, microbatch=8, compress=compress)  # two microbatches for three
    ended = run_world(3, train, plan)
    assert [one.error for one in ended] == [""] * 3, ended[0].said
    assert len({one.value.digest for one in ended}) == 1


@pytest.mark.parametrize(
    "death", [DieInForward("c"), *(DieInCollective("c", n, True) for n in (1, 2, 3))], ids=str
)
def test_survivors_have_the_same_weights(jobs: Jobs, death: Nuisance) -> None:
    job = jobs.start(train, replace(PLAN, nuisance=death), workers="abc")
    job.until_dead("c")
    job.publish(How.ABORT, "a", "b")
    ended = job.ended("a", "b")
    assert [one.error for one in ended] == ["", ""], ended[0].said
    assert ended[0].value.digest == ended[1].value.digest
    assert len(ended[0].value.losses) == PLAN.total


def go_on(_meanwhile: Meanwhile) -> None:
    """Come to the first inner step while the state is sent."""


class SentSlowly(Meanwhile):
    """So slowly that an inner step that did not wait would be in it; the next one comes after."""

    @override
    def __call__(self, run: Run, step: int, count: int) -> None:
        super().__call__(run, step, count)
        if (
            not this_is(JOINING_WORKER)
            and run.world_size == len("abn")
            and (step, count) == (AT + 1, 1)
        ):
            wait_for(self.folder / "taken")

    @override
    def _hold_what_is_sent(self) -> None:
        super()._hold_what_is_sent()
        held = state_transfer.parts

        def slowly(tensors: Sequence[Tensor], part_bytes: int) -> Iterator[list[Tensor]]:
            for part in held(tensors, part_bytes):
                time.sleep(0.3)
                yield part

        state_transfer.parts = slowly


def test_who_joins_has_the_same_weights(jobs: Jobs, tmp_path: Path) -> None:
    plan = replace(PLAN, total=6, nuisance=SentSlowly(tmp_path, go_on))
    ended = join(jobs, plan, tmp_path, train).ended("a", JOINING_WORKER, "b")
    assert [one.error for one in ended] == [""] * 3, [one.said for one in ended]
    assert len({one.value.digest for one in ended}) == 1


@dataclass(frozen=True)
class Break:
    """The world breaks once in the third step, with all alive."""

    count: int

    def __call__(self, run: Run, step: int, count: int) -> None:
        is_first_world = run._context.rank_info.world_number == 1
        if this_is("a") and is_first_world and (step, count) == (3, self.count):
            raise PeerLostError("of a test")


@pytest.mark.parametrize("count", [0, 2, -1])
def test_a_step_that_is_repeated_comes_to_the_same_bits(jobs: Jobs, count: int) -> None:
    undisturbed = run_world(2, train, PLAN)
    job: Job = jobs.start(train, replace(PLAN, nuisance=Break(count)), workers="ab")
    job.until(lambda: all(job.progress(one).broken == 1 for one in "ab"))
    job.publish(How.ABORT, "a", "b")
    ended = job.ended("a", "b")
    assert [one.error for one in ended] == ["", ""], ended[0].said
    assert {one.value.digest for one in ended} == {undisturbed[0].value.digest}


def test_a_step_that_is_skipped_leaves_no_trace(made: Made) -> None:
    run, model, outer = made
    inner = torch.optim.AdamW(model.parameters())
    step = first_step(run)
    before = model.weight.detach().clone()
    with step:
        for number, (x, _) in enumerate(step):
            loss = model(x).sum() * (float("nan") if number else 1.0)
            step.backward(loss, mean_of=len(x))
            step.inner_update(inner)
        step.update(outer)
        assert step.skipped
    assert torch.equal(model.weight, before)
    assert not inner.state


def test_what_is_not_called_each_time_is_refused(made: Made) -> None:
    run, model, outer = made
    inner = torch.optim.AdamW(model.parameters())
    step = first_step(run)
    for number, (x, _) in enumerate(step):
        step.backward(model(x).sum(), mean_of=len(x))
        if not number:
            step.inner_update(inner)
    with pytest.raises(ValueError, match="1 times in 2 microbatches"):
        step.update(outer)


def test_an_inner_optimizer_that_is_tracked_is_refused(made: Made) -> None:
    run, model, _ = made
    run.track(inner=torch.optim.AdamW(model.parameters()))
    with pytest.raises(ValueError, match=r"do not track the optimizer of step\.inner_update"):
        first_step(run).__enter__()


def test_where_bits_would_depend_on_the_number_of_processes_it_is_refused(made: Made) -> None:
    run, model, _ = made
    run._context.deterministic = True
    step = first_step(run)
    x, _ = next(iter(step))
    step.backward(model(x).sum(), mean_of=len(x))
    with pytest.raises(ValueError, match="deterministic=True"):
        step.inner_update(torch.optim.AdamW(model.parameters()))


def test_microbatches_whose_size_changes_are_refused(made: Made) -> None:
    run, model, _ = made
    step = first_step(run)
    step._context.batch = replace(step._context.batch, may_shrink=True)
    x, _ = next(iter(step))
    step.backward(model(x).sum(), mean_of=len(x))
    with pytest.raises(ValueError, match=r'microbatch="auto" would change that'):
        step.inner_update(torch.optim.AdamW(model.parameters()))


def test_a_microbatch_without_weight_leaves_weights_finite(made: Made) -> None:
    run, model, outer = made
    inner = torch.optim.SGD(model.parameters(), lr=0.01)
    step = first_step(run)
    with step:
        for number, (x, _) in enumerate(step):
            step.backward((model(x) * number).sum(), weight=float(number))
            step.inner_update(inner)
        step.update(outer)
        assert not step.skipped
    assert bool(torch.isfinite(model.weight).all())


def test_an_inner_optimizer_of_other_weights_is_refused(made: Made) -> None:
    run, model, _ = made
    other = torch.optim.AdamW(nn.Linear(2, 2).parameters())
    step = first_step(run)
    x, _ = next(iter(step))
    step.backward(model(x).sum(), mean_of=len(x))
    with pytest.raises(ValueError, match="that no tracked optimizer has"):
        step.inner_update(other)
