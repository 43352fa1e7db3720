"""`microbatch="auto"`: all processes halve microbatches until they fit into the memory of each.

There is no GPU here. `Memory` plays one that is full: it raises torch's own error where a
microbatch has more samples than fit. One test has the CPU's allocator refuse memory in earnest.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import IterableDataset
from typing_extensions import override

from spotrun.wire import How
from spotrun_trainer import Run
from spotrun_trainer.loop.memory.batch_size import BatchSize
from spotrun_trainer.step import step_context
from spotrun_trainer.step.batch import MOST_SAMPLES, Batch, largest_microbatch
from spotrun_trainer.step.gradients import BucketedGradients
from tests.support.processes.trainer_world import Ended, run_alone, run_world
from tests.unit.trainer.run.begun import Made, first_step
from tests.unit.trainer.run.elastic import Jobs, this_is
from tests.unit.trainer.run.scripts import CLASSES, FEATURES, dataset
from tests.unit.trainer.run.test_worlds import DieInCollective, Hold

GLOBAL_BATCH = 24


@dataclass(frozen=True)
class Memory:
    """A memory that holds a microbatch of so many samples, from a step on, in one process or all.

    It is full amid the forward pass, or amid the backward pass, where some gradients are on their
    way to the other processes already.
    """

    samples: int
    rank: int | None = None
    worker: str | None = None
    step: int = 1
    count: int = 0  # of the microbatches before it in this process
    in_backward: bool = False

    def is_full(self, rank: int, step: int, count: int, samples: int) -> bool:
        is_here = self.worker is None or this_is(self.worker)
        is_here = (
            is_here and self.rank in {None, rank} and step >= self.step and count >= self.count
        )
        return is_here and samples > self.samples


@dataclass(frozen=True)
class Auto:
    """A training, what fits, and what happens meanwhile."""

    memories: tuple[Memory, ...] = ()
    microbatch: Any = "auto"
    total: int = 5
    checkpoint: str | None = None
    has_phases: bool = False
    is_stream: bool = False
    meanwhile: Callable[[Run, int, int], None] | None = None


@dataclass(frozen=True)
class Seen:
    """What a process computed: the losses of steps, and the samples of each microbatch."""

    losses: list[float]
    weights: list[float]
    buffers: list[float]
    sizes: list[list[int]]  # also of steps that were dropped


class Full(torch.autograd.Function):
    """Runs out of memory in its backward pass."""

    @staticmethod
    @override
    def forward(_context: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    @override
    def backward(_context: Any, *_gradients: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("played: no memory is left")


class Network(nn.Module):
    """Layers with a buffer that microbatches change."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Linear(FEATURES, 8)
        self.norm = nn.BatchNorm1d(8, affine=False)
        self.last = nn.Linear(8, CLASSES)

    @override
    def forward(self, x: torch.Tensor, *, breaks: bool = False) -> torch.Tensor:
        hidden = torch.tanh(self.first(x))
        if len(x) > 1:
            with torch.no_grad():
                self.norm(hidden)  # only looked at: each microbatch has statistics of its own
        out: torch.Tensor = self.last(Full.apply(hidden) if breaks else hidden)
        return out


class Stream(IterableDataset[Any]):
    """The same samples, which can only be read in order."""

    @override
    def __iter__(self) -> Iterator[Any]:
        return zip(*dataset().tensors, strict=True)


def train_auto(plan: Auto) -> Seen:
    # A bucket for each layer: some are sent while a backward pass still runs.
    vars(step_context)["BucketedGradients"] = partial(BucketedGradients, bucket_bytes=128)
    run = Run(1, checkpoint=plan.checkpoint, every="2 steps")
    model = run.prepare(Network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    run.track(model=model, optimizer=optimizer)
    losses: list[float] = []
    sizes: list[list[int]] = []
    data = Stream() if plan.is_stream else dataset()
    for step in run.steps(
        data,
        global_batch=GLOBAL_BATCH,
        microbatch=plan.microbatch,
        total=plan.total,
        shuffle=not plan.is_stream,
        num_workers=0,
    ):
        with step:
            for phase in range(2) if plan.has_phases else [-1]:
                context = step.phase(str(phase)) if plan.has_phases else torch.enable_grad()
                with context:
                    sizes.append(computed := [])
                    for count, (x, y) in enumerate(step):
                        computed.append(len(y))
                        if plan.meanwhile:
                            plan.meanwhile(run, step.number, count)
                        here = run.rank, step.number, count, len(y)
                        full = [one for one in plan.memories if phase and one.is_full(*here)]
                        if full and not full[0].in_backward:
                            raise torch.OutOfMemoryError("played: no memory is left")
                        loss = cross_entropy(model(x, breaks=bool(full)), y)
                        step.backward(loss, mean_of=len(y))
                    if plan.meanwhile:
                        plan.meanwhile(run, step.number, -1)
                    step.update(optimizer, clip=1.0)
            losses.append(float(step.loss))
    weights = torch.cat([one.detach().flatten() for one in model.parameters()]).tolist()
    buffers = torch.cat([one.detach().flatten().double() for one in model.buffers()]).tolist()
    return Seen(losses, weights, buffers, sizes)


@cache
def as_given(plan: Auto) -> Seen:
    """The same training in microbatches of one size, that nothing happens to."""
    return values([run_alone(train_auto, plan)])[0]


def values(ended: list[Ended]) -> list[Seen]:
    assert [one.error for one in ended] == [""] * len(ended), "\n".join(one.said for one in ended)
    return [one.value for one in ended]


def assert_learned(plan: Auto, *seen: Seen) -> None:
    """Every sample was used once, in its step: losses and weights are those of a plain training."""
    plain = replace(plan, memories=(), microbatch=6, checkpoint=None, meanwhile=None)
    expected = as_given(plain)
    for one in seen:
        assert one.losses == pytest.approx(expected.losses[-len(one.losses) :], abs=1e-4)
        assert one.weights == pytest.approx(expected.weights, abs=1e-3)
    assert len({str(one.weights) for one in seen}) == 1


@pytest.mark.parametrize(
    ("processes", "most", "expected"),
    [
        (1, 1000, 24),
        (2, 1000, 12),
        (3, 1000, 8),
        (5, 1000, 4),
        (100, 1000, 1),
        (1, 11, 8),
        (2, 5, 4),
    ],
)
def test_the_largest_that_gives_each_process_one(processes: int, most: int, expected: int) -> None:
    assert largest_microbatch(GLOBAL_BATCH, processes, most) == expected


def test_sizes_go_down_to_one_sample_and_always_divide_the_batch() -> None:
    size, sizes = BatchSize(GLOBAL_BATCH, "auto"), [24]
    while (smaller := size.of(1).smaller) is not None:
        size.shrink(size.of(1).microbatch, is_logged=False)
        sizes.append(smaller)
    assert sizes == [24, 12, 6, 3, 1]
    assert Batch(7, 7).smaller == 1
    assert BatchSize(2**20, "auto").of(1).microbatch == MOST_SAMPLES


@pytest.mark.parametrize(
    ("processes", "memory", "tried"),
    [
        (1, Memory(6), [24, 12, 6]),
        (2, Memory(3, in_backward=True), [12, 6, 3]),
        (2, Memory(6, rank=1), [12, 6]),
        (2, Memory(6, rank=0, step=3, in_backward=True), [12, 6]),
        (3, Memory(4, rank=2, step=2), [8, 4]),
    ],
    ids=str,
)
def test_all_halve_until_it_fits_in_each(processes: int, memory: Memory, tried: list[int]) -> None:
    plan = Auto((memory,))
    seen = values(run_world(processes, train_auto, plan))
    assert_learned(plan, *seen)
    for one in seen:
        sizes = [size for step in one.sizes for size in step]
        assert list(dict.fromkeys(sizes)) == tried
        assert sum(one.sizes[-1]) == GLOBAL_BATCH // processes
    # As many batch norm statistics as steps: those of dropped steps are not counted.
    assert {one.buffers[-1] for one in seen} == {plan.total}
    assert len({str(one.buffers) for one in seen}) == 1


def test_a_later_microbatch_of_a_step_may_be_the_one_too_many() -> None:
    later = Memory(4, rank=1, step=3, count=1, in_backward=True)
    plan = Auto((Memory(6), later))
    first, second = values(run_world(2, train_auto, plan))
    assert second.sizes == [[12], [], [6, 6], [6, 6], [6, 6], [], [3] * 4, [3] * 4, [3] * 4]
    assert first.sizes == [[12], [], [6, 6], [6, 6], [6, 6], [3] * 4, [3] * 4, [3] * 4]
    assert_learned(plan, first, second)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_phase_that_was_applied_is_not_computed_again(processes: int) -> None:
    plan = Auto((Memory(6, step=2),), has_phases=True)
    seen = values(run_world(processes, train_auto, plan))
    assert_learned(plan, *seen)


def test_a_stream_goes_on_at_the_same_samples() -> None:
    plan = Auto((Memory(3, rank=1, step=3),), is_stream=True)
    assert_learned(plan, *values(run_world(2, train_auto, plan)))


def test_a_restored_training_begins_with_what_was_found(tmp_path: Path) -> None:
    plan = Auto((Memory(3),), total=3, checkpoint=str(tmp_path))
    values(run_world(2, train_auto, plan))
    longer = replace(plan, total=5)
    seen = values(run_world(3, train_auto, longer))
    assert {size for one in seen for step in one.sizes for size in step} == {3}
    assert_learned(longer, *seen)


@pytest.mark.parametrize(
    "death",
    [
        *(DieInCollective("c", 1, takes_part) for takes_part in (False, True)),
        DieInCollective("c", 2, takes_part=True, count=0),
        *(DieInCollective("a", 1, takes_part) for takes_part in (False, True)),
    ],
    ids=str,
)
def test_a_world_that_breaks_while_one_gives_up_loses_nothing(
    jobs: Jobs, death: DieInCollective
) -> None:
    full = Memory(4, worker="a", step=3, in_backward=True)
    plan = Auto((full,), meanwhile=death)
    job = jobs.start(train_auto, plan, workers="abc")
    job.until_dead(death.worker)
    survivors = sorted({"a", "b", "c"} - {death.worker})
    job.publish(How.ABORT, *survivors)
    assert_learned(plan, *values(job.ended(*survivors)))


def test_who_joins_hears_what_was_found_and_sizes_follow_the_world(
    jobs: Jobs, tmp_path: Path
) -> None:
    memories = Memory(6), Memory(3, worker="n", step=5)
    plan = Auto(memories, total=7, meanwhile=Hold(tmp_path))
    job = jobs.start(train_auto, plan, workers="a")
    job.until((tmp_path / "held").exists)
    job.bring_in(How.BOUNDARY, "a", "n", "m")
    (tmp_path / "go").touch()
    first, joined, _ = seen = values(job.ended("a", "n", "m"))
    assert first.sizes[:4] == [[24], [12], [6] * 4, [6] * 4]
    assert first.sizes[-1] == joined.sizes[-1] == [3, 3, 3]
    assert joined.sizes[:2] == [[8], [4]]  # its rehearsal, in which it learns the same by itself
    assert_learned(plan, *seen)


def test_fewer_processes_take_larger_microbatches_that_are_not_known_to_be_too_large(
    jobs: Jobs, tmp_path: Path
) -> None:
    plan = Auto(meanwhile=Hold(tmp_path))
    job = jobs.start(train_auto, plan, workers="abc")
    job.until((tmp_path / "held").exists)
    job.publish(How.BOUNDARY, "b", "c")
    (tmp_path / "go").touch()
    for one in (seen := values(job.ended("b", "c"))):
        assert [len(one.sizes[0]), one.sizes[0][0], one.sizes[-1][0]] == [1, 8, 12]
    assert_learned(plan, *seen)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"microbatch": "large"}, 'give a number of samples, or "auto"'),
        ({"microbatch": "auto", "global_batch": 0}, "at least 1"),
    ],
)
def test_what_is_no_size_is_said(made: Made, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        first_step(made[0], **options)


def test_where_bits_are_promised_a_size_is_given() -> None:
    run = Run(deterministic=True)
    run.track(model=run.prepare(nn.Linear(2, 2)))
    with pytest.raises(ValueError, match="promises the same bits for all of them"):
        run.steps(dataset(), global_batch=4, microbatch="auto")


def test_one_sample_that_does_not_fit_is_an_error_of_its_process() -> None:
    first, second = run_world(2, train_auto, Auto((Memory(0, rank=1),)))
    assert "OutOfMemoryError: played" in second.said
    assert "a microbatch of one cannot be smaller" in second.error
    assert "peer" in first.error or "world" in first.error


def test_with_a_size_given_the_error_says_what_is_held_and_what_to_try() -> None:
    plan = Auto((Memory(4, step=2),), microbatch=8)
    ended = run_alone(train_auto, plan)
    assert "OutOfMemoryError: played" in ended.said
    assert "this process holds weights 0.0 MiB, gradients 0.0 MiB, optimizer state" in ended.said
    assert 'a microbatch of 8 of 24 samples; what to try: microbatch="auto"' in ended.said


def forward_with_more_than_there_is() -> list[int]:
    """A microbatch of more than 6 samples asks the CPU for memory that no machine has."""
    run = Run(1)
    model = run.prepare(nn.Linear(FEATURES, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run.track(model=model, optimizer=optimizer)
    sizes = []
    for step in run.steps(
        dataset(), global_batch=GLOBAL_BATCH, microbatch="auto", total=1, num_workers=0
    ):
        with step:
            for x, y in step:
                sizes.append(len(y))
                torch.empty(2**60 if len(y) > 6 else 1, dtype=torch.uint8)
                step.backward(cross_entropy(model(x), y), mean_of=len(y))
            step.update(optimizer)
    return sizes


def test_the_allocator_of_the_cpu_is_heard_too() -> None:
    ended = run_alone(forward_with_more_than_there_is)
    assert ended.value == [24, 12, 6, 6, 6, 6], ended.said
    assert "a microbatch of 24 samples did not fit into memory" in ended.said
