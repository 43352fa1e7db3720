"""The cost of a checkpoint for its training: 100 M parameters with AdamW, 1.2 GB.

`checkpoint_call_ms`: from the call for a checkpoint until training continues;
`checkpoint_step_ratio`: the median step during an upload divided by the median step before it.
These are real training steps of one process on all cores, with ours and torch's distributed
checkpoint (`async_save` in a thread with its default stager, and `save`) in turns on the same
model. `checkpoint_urgent_in_time`: checkpoints are ordered at any moment of training, half of them
during another upload; this counts those that are durable within 30 s of the order.
`checkpoint_load_seconds` includes the check of hashes. `checkpoint_call_3000_ms`: the call for a
state of 12,000 small tensors, from 3,000 parameters with AdamW; with its CPU time, which is the
same on a busy machine.

Run as `.venv/bin/python bench/checkpoint.py [--quick] [--repeats 5] [--place DIRECTORY]`.
"""

import argparse
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import HashStore
from torch.distributed.checkpoint.state_dict_saver import async_save, save

from bench.operator_bench import say
from devcluster.argument_types import existing_folder, how_many
from spotrun_trainer.checkpoint import Checkpoints
from spotrun_trainer.state.tracked import Tracked

WINDOW_SECONDS = 30.0
STEPS_BEFORE = 4
MANY = 3_000  # parameters
MOST_STEPS_BESIDE = 60


@dataclass(frozen=True)
class Size:
    """The size of a transformer and of a step."""

    width: int = 768
    layers: int = 12
    vocabulary: int = 20_000
    tokens: int = 256


class Block(nn.Module):
    """One layer of it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.mixed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[explicit-override]
        """Attention, then the network."""
        q, k, v = (one.unsqueeze(0) for one in self.qkv(self.norm(x)).chunk(3, dim=-1))
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)[0])
        mixed: Tensor = self.mlp(self.mixed(x))
        return x + mixed


class Training:
    """A model, its optimizer, and steps."""

    def __init__(self, size: Size) -> None:
        torch.manual_seed(1)
        self._size = size
        self.model = nn.Sequential(
            nn.Embedding(size.vocabulary, size.width),
            *(Block(size.width) for _ in range(size.layers)),
            nn.Linear(size.width, size.vocabulary, bias=False),
        )
        self.model[-1].weight = self.model[0].weight
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.tracked = Tracked()
        self.tracked.add("model", self.model)
        self.tracked.add("opt", self.opt)

    @property
    def parameters(self) -> int:
        """The number of trained parameters."""
        return sum(one.numel() for one in self.model.parameters())

    def step(self, before_change: Callable[[], None] = lambda: None) -> float:
        """Take one step; returns its seconds."""
        began = time.perf_counter()
        tokens = torch.randint(self._size.vocabulary, (self._size.tokens,))
        loss = nn.functional.cross_entropy(self.model(tokens), tokens)
        loss.backward()  # type: ignore[no-untyped-call]
        before_change()
        self.opt.step()
        self.opt.zero_grad()
        return time.perf_counter() - began


class Many:
    """Layers that each have a weight and a bias, with little to compute."""

    def __init__(self, parameters: int) -> None:
        self.model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(parameters // 2)))
        self.opt = torch.optim.AdamW(self.model.parameters())
        self.tracked = Tracked()
        self.tracked.add("model", self.model)
        self.tracked.add("opt", self.opt)

    def step(self, before_change: Callable[[], None] = lambda: None) -> None:
        """One step."""
        self.model(torch.ones(1, 8)).sum().backward()
        before_change()
        self.opt.step()
        self.opt.zero_grad()


@dataclass
class Found:
    """The figures of one way to save."""

    call_ms: list[float] = field(default_factory=list)
    ratio: list[float] = field(default_factory=list)
    worst_ratio: list[float] = field(default_factory=list)
    upload_seconds: list[float] = field(default_factory=list)

    def say(self, suffix: str, **facts: object) -> None:
        """Print them."""
        say(f"checkpoint_call_ms{suffix}", self.call_ms, "ms", **facts)
        if self.ratio:  # no step runs during a call that writes everything
            say(f"checkpoint_step_ratio{suffix}", self.ratio, "x", **facts)
            say(f"checkpoint_step_worst_ratio{suffix}", self.worst_ratio, "x", **facts)
        say(f"checkpoint_upload_seconds{suffix}", self.upload_seconds, "s", **facts)


class Ours:
    """Saving as spotrun does."""

    is_beside = True

    def __init__(self, training: Training | Many, place: Path | str) -> None:
        self._training = training
        self.checkpoints = Checkpoints(place, keep=1)
        self._step = 0

    def call(self) -> None:
        """Begin to save."""
        self._step += 1
        flat = self._training.tracked.flatten()
        self.checkpoints.save(f"step-{self._step}.g1", flat, rank=0, size=1, extra={})

    def before_change(self) -> None:
        """Wait as a step does before it changes the state."""
        self.checkpoints.before_change()

    def is_done(self) -> bool:
        """Whether it is durable; older checkpoints are then deleted."""
        if not (saved := self.checkpoints.finished()):
            return False
        self.checkpoints.prune(saved.name, world_number=1)
        return True


class Torch:
    """Saving as torch.distributed.checkpoint does."""

    def __init__(self, training: Training, place: Path, *, beside: bool) -> None:
        self._training = training
        self._place = place
        self.is_beside = beside
        self._future: object = None

    def call(self) -> None:
        """Save, or begin to save."""
        shutil.rmtree(self._place, ignore_errors=True)
        state = {"model": self._training.model.state_dict(), "opt": self._training.opt.state_dict()}
        if self.is_beside:
            self._future = async_save(state, checkpoint_id=self._place)
        else:
            save(state, checkpoint_id=self._place)

    def before_change(self) -> None:
        """Do nothing: the default stager copies within the call."""

    def is_done(self) -> bool:
        """Whether its thread has ended."""
        return self._future is None or bool(self._future.done())  # type: ignore[attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small model, once")
    parser.add_argument("--repeats", type=how_many, default=5)
    parser.add_argument("--urgent", type=how_many, default=20)
    parser.add_argument(
        "--place", type=existing_folder, help="a directory on the disk to be measured"
    )
    arguments = parser.parse_args()
    size = Size()
    if arguments.quick:
        size, arguments.repeats, arguments.urgent = Size(128, 2, 2_000, 64), 1, 3
    with tempfile.TemporaryDirectory(dir=arguments.place) as folder, own_group():
        call_with_many(Path(folder) / "many", MANY, max(5, arguments.repeats))
        measure(Training(size), Path(folder), arguments.repeats, arguments.urgent)


@contextmanager
def own_group() -> Iterator[None]:
    """Create a default group of one process, which torch's way needs."""
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def measure(training: Training, folder: Path, repeats: int, urgent: int) -> None:
    facts = {"parameters": training.parameters, "threads": torch.get_num_threads()}
    for _ in range(STEPS_BEFORE):
        training.step()
    ours = Ours(training, folder / "ours")
    ways: dict[str, Ours | Torch] = {
        "": ours,
        "_dcp_async": Torch(training, folder / "async", beside=True),
        "_dcp_sync": Torch(training, folder / "sync", beside=False),
    }
    found = {suffix: Found() for suffix in ways}
    for suffix, way in ways.items():  # allocates the buffers
        first = Found()
        save_beside(training, way, first)
        say(f"checkpoint_first_call_ms{suffix}", first.call_ms, "ms", **facts)
    for _ in range(repeats):
        for suffix, way in ways.items():
            save_beside(training, way, found[suffix])
    for suffix, one in found.items():
        one.say(suffix, **facts)
    save_urgently(training, ours, urgent)
    load(training, ours, folder / "ours")
    ours.checkpoints.close()


def save_beside(training: Training, way: Ours | Torch, found: Found) -> None:
    """Measure steps without a save, then steps during one until it is durable."""
    before = statistics.median(training.step() for _ in range(STEPS_BEFORE))
    began = time.perf_counter()
    way.call()
    call_seconds = time.perf_counter() - began
    # At least one step: a small model may be saved before the first check.
    beside = [training.step(way.before_change)] if way.is_beside else []
    while not (done := way.is_done()) and len(beside) < MOST_STEPS_BESIDE:
        beside.append(training.step(way.before_change))
    while not done:
        done = way.is_done()
        time.sleep(0.01)
    found.call_ms.append(1000 * call_seconds)
    found.upload_seconds.append(time.perf_counter() - began)
    if beside:
        found.ratio.append(statistics.median(beside) / before)
        found.worst_ratio.append(max(beside) / before)


def call_with_many(folder: Path, parameters: int, repeats: int) -> None:
    """Measure saves of a state of small tensors; the first save finds out their layout."""
    training = Many(parameters)
    ours, call_ms, cpu_ms = Ours(training, folder), list[float](), list[float]()
    for _ in range(repeats + 1):
        training.step()
        began, cpu_began = time.perf_counter(), time.thread_time()
        ours.call()
        call_ms.append(1000 * (time.perf_counter() - began))
        cpu_ms.append(1000 * (time.thread_time() - cpu_began))
        training.step(ours.before_change)
        ours.checkpoints.wait(WINDOW_SECONDS)
    ours.checkpoints.close()
    tensors = len(training.tracked.flatten().tensors)
    say(f"checkpoint_first_call_{parameters}_ms", call_ms[0], "ms", tensors=tensors)
    cpu = round(statistics.median(cpu_ms[1:]), 1)
    say(f"checkpoint_call_{parameters}_ms", call_ms[1:], "ms", tensors=tensors, cpu_ms=cpu)


def save_urgently(training: Training, ours: Ours, times: int) -> None:
    """Measure orders at any moment; training stops for them at the end of its step."""
    dice, seconds, estimates = random.Random(1), [], []  # noqa: S311  # no secrets
    for number in range(times):
        if number % 2:
            ours.call()
        for _ in range(dice.randint(1, 2)):
            training.step(ours.before_change)
        began = time.perf_counter()
        estimates.append(ours.checkpoints.estimate_seconds(training.tracked.flatten()))
        ours.call()
        in_time = ours.checkpoints.wait(WINDOW_SECONDS)
        if in_time and ours.is_done():
            seconds.append(time.perf_counter() - began)
    within = sum(one <= WINDOW_SECONDS for one in seconds)
    say("checkpoint_urgent_in_time", within, "saves", of=times, window_seconds=WINDOW_SECONDS)
    say("checkpoint_urgent_seconds", seconds, "s")
    say("checkpoint_urgent_estimate_seconds", estimates, "s")


def load(training: Training, ours: Ours, folder: Path) -> None:
    """Measure a load with hashes verified; and a read of the bytes alone, for comparison."""
    name = ours.checkpoints.newest()
    assert name
    seconds, reading = [], []
    for _ in range(3):
        began = time.perf_counter()
        ours.checkpoints.load(name, training.tracked)
        seconds.append(time.perf_counter() - began)
        began = time.perf_counter()
        with (folder / name / "rank-0.safetensors").open("rb", buffering=0) as stream:
            chunk = bytearray(4 << 20)
            while stream.readinto(chunk):
                pass
        reading.append(time.perf_counter() - began)
    say("checkpoint_load_seconds", seconds, "s")
    say("checkpoint_load_bytes_alone_seconds", reading, "s")


if __name__ == "__main__":
    main()
