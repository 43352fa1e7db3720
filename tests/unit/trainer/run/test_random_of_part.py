"""Dropout where several processes hold a model: equal in what all have, different in its parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from typing_extensions import override

from spotrun.wire import How
from spotrun_trainer import Run, random_of_part
from spotrun_trainer.process.rng import seed_all
from tests.support.processes.trainer_world import Ended, run_world
from tests.unit.trainer.run.elastic import Jobs
from tests.unit.trainer.run.scripts import CLASSES, FEATURES, Nuisance, dataset
from tests.unit.trainer.run.sharded import Both, SumOverParts
from tests.unit.trainer.run.test_worlds import DieInForward, Hold

SHARDS, WIDTH = 2, 64


@dataclass(frozen=True)
class Masks:
    """What dropout left of one microbatch."""

    sample: float  # which names it: no two are equal
    split: tuple[bool, ...]  # in the hidden units of this part
    again: tuple[bool, ...]  # in a second layer of the same part
    common: tuple[bool, ...]  # in what all parts hold


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.last = nn.Linear(WIDTH, CLASSES)
        self.masks: list[Masks] = []

    @override
    def forward(self, x: Tensor) -> Tensor:
        common = functional.dropout(torch.ones(WIDTH), 0.5)
        with random_of_part():
            split = functional.dropout(torch.ones(WIDTH), 0.5)
        with random_of_part():
            again = functional.dropout(torch.ones(WIDTH), 0.5)
        shown = [tuple((mask != 0).tolist()) for mask in (split, again, common)]
        self.masks.append(Masks(float(x[0, 0]), *shown))
        hidden = self.second(torch.tanh(self.first(x)) * split) * again
        whole: Tensor = SumOverParts.apply(hidden)
        out: Tensor = self.last(whole * common)
        return out


def masks_of(nuisance: Nuisance | None = None) -> list[Masks]:
    """Those that this process drew in one epoch."""
    run = Run(1, shards=SHARDS)
    model = run.prepare(Part())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run.track(model=model, optimizer=optimizer)
    for step in run.steps(dataset(), global_batch=16, microbatch=2, total=6, num_workers=0):
        with step:
            for count, (x, y) in enumerate(step):
                step.backward(functional.cross_entropy(model(x), y), mean_of=len(y))
                if nuisance:
                    nuisance(run, step.number, count)
            if nuisance:
                nuisance(run, step.number, -1)
            step.update(optimizer)
    return model.masks


def by_sample(ended: Sequence[Ended]) -> dict[float, Masks]:
    """By the microbatch's first sample; it must have had the same ones each time."""
    found: dict[float, Masks] = {}
    for one in ended:
        assert one.error == "", one.said
        for masks in one.value:
            assert found.setdefault(masks.sample, masks) == masks
    return found


def test_masks_differ_between_parts_and_microbatches_and_are_equal_in_what_all_hold() -> None:
    first, second = (by_sample([one]) for one in run_world(SHARDS, masks_of))
    assert len(first) == 48
    assert first.keys() == second.keys()
    assert [one.common for one in first.values()] == [one.common for one in second.values()]
    every = [
        mask for part in (first, second) for one in part.values() for mask in (one.split, one.again)
    ]
    every += [one.common for one in first.values()]
    assert len(set(every)) == len(every) == 5 * 48


def test_another_world_gives_each_part_of_a_microbatch_the_same_masks(
    jobs: Jobs, tmp_path: Path
) -> None:
    undisturbed = [by_sample([one]) for one in run_world(SHARDS, masks_of)]
    two_copies = run_world(2 * SHARDS, masks_of)
    assert [by_sample(two_copies[part::SHARDS]) for part in range(SHARDS)] == undisturbed

    job = jobs.start(masks_of, Both(DieInForward("b1"), Hold(tmp_path, at=5)), workers=FOUR)
    job.until_dead("b1")
    job.publish(How.ABORT, "a0", "a1")
    job.until((tmp_path / "held").exists)
    job.bring_in(How.BOUNDARY, "a0", "a1", "b0", "n1")
    (tmp_path / "go").touch()
    a0, a1, b0, n1 = job.ended("a0", "a1", "b0", "n1")
    for ended, alone in zip(([a0, b0], [a1, n1]), undisturbed, strict=True):
        found = by_sample(ended)  # without what the lost one drew before
        assert found.items() <= alone.items()
        assert len(found) > 32


FOUR = ("a0", "a1", "b0", "b1")


def test_one_process_draws_by_step_and_microbatch_and_leaves_the_others_numbers_as_they_are() -> (
    None
):
    def draws(*, with_part: bool) -> list[float]:
        seed_all(1, 2, 3)
        found = [torch.rand(()).item()]
        if with_part:
            with random_of_part():
                found.append(torch.rand(()).item())
        else:
            torch.randint(2**62, ())
        return [*found, torch.rand(()).item()]

    first, inside, last = draws(with_part=True)
    assert draws(with_part=True) == [first, inside, last]
    assert draws(with_part=False) == [first, last]


def test_activation_checkpointing_draws_again_what_it_drew() -> None:
    drawn: list[Tensor] = []

    def layer(x: Tensor) -> Tensor:
        with random_of_part():
            drawn.append(functional.dropout(torch.ones(WIDTH), 0.5))
        return torch.tanh(x) * drawn[-1]

    x = torch.ones(WIDTH, requires_grad=True)
    checkpoint(layer, x, use_reentrant=False).sum().backward()  # type: ignore[no-untyped-call]
    first, again = drawn
    assert torch.equal(first, again)
