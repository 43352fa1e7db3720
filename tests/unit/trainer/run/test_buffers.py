"""Buffers of a step that is computed in pieces: what it makes of what each has changed."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset
from typing_extensions import override

from spotrun_trainer import Run
from spotrun_trainer.state.tracked import Rule
from tests.support.processes.trainer_world import run_alone, run_world


class Seen(nn.Module):
    """Keeps the last sample, and counts samples and their sum."""

    last: Tensor
    count: Tensor
    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.register_buffer("last", torch.zeros(1))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("total", torch.zeros(1))

    @override
    def forward(self, x: Tensor) -> Tensor:
        self.last.copy_(x[-1])
        self.count += len(x)
        self.total += x.sum(0)
        scores: Tensor = self.layer(x)
        return scores


def seen(rule: Rule | None, microbatch: int) -> list[float]:
    """The last sample, their number and their sum, after two steps of the samples 1 to 8."""
    run = Run(seed=1)
    model = run.prepare(Seen())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run.track(model=model, buffers=rule)
    run.track(optimizer=optimizer)
    samples = TensorDataset(torch.arange(1.0, 9.0).reshape(8, 1))
    steps = run.steps(
        samples, global_batch=8, microbatch=microbatch, total=2, shuffle=False, num_workers=0
    )
    for step in steps:
        with step:
            for (x,) in step:
                step.backward(model(x).square().sum(), weight=len(x))
            step.update(optimizer)
    return [model.last.item(), float(model.count.item()), model.total.item()]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("mean", [5.0, 4.0, 18.0]),  # a quarter of what four microbatches change together
        ("sum", [20.0 + 20.0 - 4 * 20.0, 16.0, 72.0]),
        ("last", [8.0, 4.0, 30.0]),
    ],
)
def test_a_step_changes_buffers_by_the_rule_that_is_named(
    rule: Rule, expected: list[float], size: int
) -> None:
    for ended in run_world(size, seen, rule, 2):
        assert ended.error == "", ended.said
        assert expected == ended.value


def normed(rule: Rule | None, *, is_parent_last: bool = False) -> dict[str, list[float]]:
    """Batch norm's statistics, and an own counter in a module beside it, after three steps."""
    run = Run(seed=1)
    model = run.prepare(nn.Sequential(Seen(), nn.BatchNorm1d(1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    if is_parent_last:
        run.track(seen=model[0], buffers=rule)
        run.track(model=model)
    else:
        run.track(model=model, buffers=rule)
    run.track(optimizer=optimizer)
    samples = TensorDataset(torch.arange(1.0, 9.0).reshape(8, 1))
    steps = run.steps(samples, global_batch=8, microbatch=2, total=3, shuffle=False, num_workers=0)
    for step in steps:
        with step:
            for (x,) in step:
                step.backward(model(x).square().sum(), weight=len(x))
            step.update(optimizer)
    return {name: buffer.flatten().tolist() for name, buffer in model.named_buffers()}


@pytest.mark.parametrize("rule", ["sum", "last"])
@pytest.mark.parametrize("size", [1, 2])
def test_the_statistics_of_batch_norm_have_a_mean_whatever_rule_is_named(
    rule: Rule, size: int
) -> None:
    expected = run_alone(normed, "mean").value
    assert expected["1.num_batches_tracked"] == [3.0]
    for ended in run_world(size, normed, rule):
        assert ended.error == "", ended.said
        for name in ("1.running_mean", "1.running_var", "1.num_batches_tracked"):
            assert ended.value[name] == pytest.approx(expected[name], rel=1e-6), name
        assert ended.value["0.total"] != expected["0.total"]


@pytest.mark.parametrize("is_parent_last", [False, True])
def test_a_module_keeps_the_rule_it_was_tracked_with_where_its_parent_is_tracked_too(
    is_parent_last: bool,
) -> None:
    ended = run_alone(partial(normed, "sum", is_parent_last=is_parent_last))
    assert ended.error == "", ended.said
    assert (ended.value["0.count"], ended.value["0.total"]) == ([24.0], [108.0])


@pytest.mark.parametrize("size", [1, 2])
def test_whole_numbers_that_change_have_no_mean_unless_one_is_asked_for(size: int) -> None:
    for ended in run_world(size, seen, None, 2):
        assert "the buffer count holds whole numbers and changes" in ended.error


def test_in_one_microbatch_a_step_is_what_plain_torch_makes_of_it() -> None:
    assert [one.value for one in run_world(1, seen, None, 8)] == [[8.0, 16.0, 72.0]]
