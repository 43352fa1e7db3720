"""Models that several processes hold together (Run(parallel=...)): correctness and speed.

    parallel_mismatches      losses of steps and evaluations that differ by more than rounding from
                             those of one process, over all meshes
    reshard_mismatches       tensors with a different bit after a checkpoint of one mesh was read
                             into another, over random pairs of meshes; and steps that differ
    copy_lost_stall_seconds  a process of one of two copies of two shards gets SIGKILL: the longest
                             gap between two steps of the other copy, minus a usual one
    steps_lost               steps that the other copy computed again
    copy_whole_again_seconds from when the replacement has started and waits for a world, to its
                             first step, with the remaining mate and the other copy
    state_sources_ratio      rate at which a joining worker gets its state from eight processes,
                             divided by that from one: see bench/parallel_sources.py
    throughput_vs_fsdp2      steps of Run in the time that torch's fully_shard takes for one, and
    memory_vs_fsdp2          the peak resident memory of both: see bench/parallel_fsdp2.py

Real processes with gloo, and a model of 260 parameters whose rows do not divide evenly. The bench
itself notices a loss and announces the next world at once: the operator's part of the time is in
bench/recovery.py.

Run as `.venv/bin/python bench/parallel.py [--quick] [--pairs 30] [--only reshard]`.
"""

import argparse
import random
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import torch
from torch.nn.functional import cross_entropy

from bench.operator_bench import say
from bench.parallel_fsdp2 import measure_throughput
from bench.parallel_sources import measure_sources
from devcluster.argument_types import how_many
from spotrun.wire import How
from tests.support.processes.trainer_world import Ended, run_alone, run_world
from tests.unit.trainer.run.elastic import Jobs
from tests.unit.trainer.run.fully_sharded import (
    FullySharded,
    Shown,
    begun,
    train_and_show,
    whole_state,
)
from tests.unit.trainer.run.scripts import dataset
from tests.unit.trainer.run.sharded import SharedModel

GLOBAL_BATCH, MICROBATCH = 96, 4  # dealt to up to 8 parts, and cut by up to 4 stages
SMALL_BATCH = 24  # for at most 4 parts, and many steps
ROUNDING = 1e-5
WARM_STEPS = 30
ENOUGH = "enough"

T = TypeVar("T")


@dataclass(frozen=True)
class Mesh:
    """Copies of the model, and the processes that hold each."""

    copies: int
    shard: int
    tensor: int = 1
    pipeline: int = 1

    def run(self, plan: FullySharded) -> list[Shown]:
        """Train with this mesh; returns the result of each process."""
        plan = replace(plan, shard=self.shard, tensor=self.tensor, pipeline=self.pipeline)
        return _values(self.copies * plan.processes, train_and_show, plan)

    def copies_of(self, shown: Sequence[Shown]) -> list[Sequence[Shown]]:
        """Return the processes of each copy."""
        size = self.shard * self.tensor * self.pipeline
        return [shown[first : first + size] for first in range(0, len(shown), size)]


MESHES = [
    Mesh(1, 1),
    Mesh(2, 1),
    Mesh(1, 2),
    Mesh(1, 3),
    Mesh(2, 2),
    Mesh(1, 4),
    Mesh(1, 1, 2),
    Mesh(1, 2, 2),
    Mesh(2, 1, 2),
    Mesh(1, 1, pipeline=2),
    Mesh(2, 1, pipeline=2),
    Mesh(1, 1, pipeline=3),
    Mesh(1, 2, pipeline=2),
    Mesh(1, 1, 2, pipeline=2),
]
EIGHT_MESHES = [Mesh(2, 2, 2), Mesh(1, 2, 2, pipeline=2)]
LARGE_MESHES = [
    Mesh(4, 2),
    Mesh(2, 4),
    Mesh(1, 6),
    Mesh(1, 8),
    Mesh(2, 2, pipeline=2),
    Mesh(1, 1, pipeline=4),
    Mesh(1, 4, 2),  # some of 4 tensor parts are empty here, which torch's FSDP2 refuses
]
QUICK_MESHES = [Mesh(1, 1), Mesh(1, 2), Mesh(1, 1, pipeline=2)]


def main() -> None:
    """Measure what the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few meshes, one pair, one loss")
    parser.add_argument("--pairs", type=how_many, default=30)
    parser.add_argument("--repeats", type=how_many, default=5)
    parser.add_argument("--only", default="", choices=["", *PARTS])
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.pairs = arguments.repeats = 1
    for name, part in PARTS.items():
        if arguments.only in {"", name}:
            with tempfile.TemporaryDirectory() as scratch:
                part(Path(scratch), arguments)


def compare_losses(_scratch: Path, arguments: argparse.Namespace) -> None:
    """Print how many losses differ from those of one process."""
    plan = FullySharded(total=10, global_batch=GLOBAL_BATCH, microbatch=MICROBATCH, evaluates=True)
    meshes = QUICK_MESHES if arguments.quick else [*MESHES, *EIGHT_MESHES]
    (alone,) = MESHES[0].run(plan)
    apart = [each for mesh in meshes[1:] for each in _apart(mesh.run(plan), alone)]
    say(
        "parallel_mismatches",
        sum(each > ROUNDING for each in apart),
        "losses",
        of=len(apart),
        meshes=len(meshes),
        most_apart=float(f"{max(apart):.1g}"),
    )


def _apart(trained: Sequence[Shown], alone: Shown) -> list[float]:
    """Return the difference of each loss from that of one process."""
    return [abs(a - b) for one in trained for a, b in zip(one.losses, alone.losses, strict=True)]


def reshard(scratch: Path, arguments: argparse.Namespace) -> None:
    """Print how many tensors differ after a checkpoint was read into another mesh."""
    chosen = random.Random(1)  # noqa: S311 - the same pairs in each run
    meshes = QUICK_MESHES if arguments.quick else [*MESHES, *EIGHT_MESHES, *LARGE_MESHES]
    num_wrong = num_tensors = 0
    for number in range(arguments.pairs):
        there, here = chosen.sample(meshes, 2)
        plan = FullySharded(
            total=chosen.randint(1, 4),
            global_batch=GLOBAL_BATCH,
            microbatch=MICROBATCH,
            checkpoint=str(scratch / f"{number}"),
        )
        saved = there.run(plan)
        expected = whole_state(there.copies_of(saved)[0])
        loaded = here.run(plan)  # no step is left
        num_wrong += sum(one.step != saved[0].step for one in loaded)
        for copy in here.copies_of(loaded):
            state = whole_state(copy)
            num_wrong += len(set(state) ^ set(expected))
            num_wrong += sum(not torch.equal(state[one], expected[one]) for one in expected)
            num_tensors += len(expected)
    say("reshard_mismatches", num_wrong, "tensors", of=num_tensors, pairs=arguments.pairs)


def lose_copies(scratch: Path, arguments: argparse.Namespace) -> None:
    """Print the cost of the loss of a process for the other copy."""
    stalls, lost, whole = [], [], []
    for number in range(arguments.repeats):
        folder = scratch / f"{number}"
        folder.mkdir()
        stall, again, seconds = _lose_a_copy(folder)
        stalls.append(stall)
        lost.append(again)
        whole.append(seconds)
    say("copy_lost_stall_seconds", stalls, "s", copies=2, shard=2)
    say("steps_lost", lost, "steps", worst=max(lost))
    say("copy_whole_again_seconds", whole, "s")


def _lose_a_copy(folder: Path) -> tuple[float, int, float]:
    jobs = Jobs(folder)
    try:
        job = jobs.start(train_and_stamp, str(folder), workers=("a0", "a1", "b0", "b1"))
        job.until(lambda: len(_stamps(folder / "a0.steps")) > WARM_STEPS)
        job.signal("b1", signal.SIGKILL)
        killed = time.monotonic()
        job.until_dead("b1")
        job.publish(How.ABORT, "a0", "a1")
        job.until(lambda: _steps_since(folder, killed) > WARM_STEPS)
        trained_alone = time.monotonic()
        members = ("a0", "a1", "b0", "n1")
        job.publish(How.BOUNDARY, *members, switch=False)
        job.start("n1")
        job.until(lambda: job.progress("n1").ready)
        ready = time.monotonic()
        job.switch()
        job.until(lambda: _stamps(folder / "n1.steps"))
        (folder / ENOUGH).touch()
        for one in job.ended(*members):
            _check(one)
    finally:
        jobs.close()
    stall, again = _stall_and_steps_again(folder, killed, trained_alone)
    return stall, again, _stamps(folder / "n1.steps")[0][1] - ready


def _stall_and_steps_again(folder: Path, begin: float, end: float) -> tuple[float, int]:
    """Return the longest stall of the other copy between two times, and its repeated steps."""
    stalls, again = [], 0
    for worker in ("a0", "a1"):
        stamps = _stamps(folder / f"{worker}.steps")
        gaps = [(after, after - before) for (_, before), (_, after) in pairwise(stamps)]
        alone = [gap for at, gap in gaps if begin < at < end]
        stalls.append(max(alone) - statistics.median(alone))
        steps = [step for step, _ in stamps]
        again += len(steps) - len(set(steps))
        if sorted(set(steps)) != list(range(1, max(steps) + 1)):
            raise RuntimeError(f"{worker} did not take each step: {steps}")
    return max(stalls), again


def _steps_since(folder: Path, moment: float) -> int:
    return sum(at > moment for _, at in _stamps(folder / "a0.steps"))


def train_and_stamp(folder: str) -> None:
    """Train until told to end, and record the time at which each step was applied."""
    import os  # noqa: PLC0415 - of a process of its own

    plan = FullySharded(global_batch=SMALL_BATCH)
    run, model, optimizer = begun(plan)
    with (Path(folder) / f"{os.environ['SPOTRUN_WORKER']}.steps").open("a", buffering=1) as stamps:
        for step in run.steps(
            dataset(), global_batch=SMALL_BATCH, microbatch=2, total=100_000, num_workers=0
        ):
            with step:
                for features, classes in step:
                    loss = cross_entropy(model(features), classes, reduction="sum")
                    step.backward(loss, weight=len(classes))
                step.update(optimizer, clip=plan.clip)
            if run.every(1):  # else it was dropped and is computed again
                stamps.write(f"{run.step} {time.monotonic()}\n")
            if (Path(folder) / ENOUGH).exists():
                run.stop()


def _stamps(file: Path) -> list[tuple[int, float]]:
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(step), float(at)) for step, at in map(str.split, lines)]


def compare_throughput(scratch: Path, arguments: argparse.Namespace) -> None:
    """Print the speed of Run compared with torch's own."""
    measure_throughput(scratch, turns=3 if arguments.quick else 20)


def compare_sources(_scratch: Path, arguments: argparse.Namespace) -> None:
    """Print how fast a joining worker gets its state from several processes."""
    measure_sources(turns=2 if arguments.quick else 10)


def _values(size: int, train: Callable[..., T], plan: SharedModel) -> list[T]:
    """Train in this number of processes; return the result of each."""
    ended = [run_alone(train, plan)] if size == 1 else run_world(size, train, plan)
    for one in ended:
        _check(one)
    return [one.value for one in ended]


def _check(ended: Ended) -> None:
    if ended.error:
        raise RuntimeError(f"{ended.error}\n{ended.said}")


PARTS: dict[str, Callable[[Path, argparse.Namespace], None]] = {
    "losses": compare_losses,
    "reshard": reshard,
    "copies": lose_copies,
    "sources": compare_sources,
    "throughput": compare_throughput,
}


if __name__ == "__main__":
    main()
