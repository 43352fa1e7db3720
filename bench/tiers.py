"""The local tier: the cost of a save there, and a start from it compared with one from a store.

Real servers of agents run in their own processes over loopback, like the S3 server (versitygw with
a folder). `tier_call_ms`: from the call until training continues; `tier_commit_ms`: until the part
and its copy on the other node are stored; both without steps beside. `tier_restore_ratio`: the time
of a restore from the store divided by that from a neighbour's memory, by a process that has no part
of the state itself, for equal bytes and in turns. `tier_restore_own_ratio`: the same from the
worker's own folder, as all workers except the replacement do. Each is measured twice: with the
server as it is, on the same machine, and `emulated`: each read request takes at least as long as
from S3, 25 ms and then 90 MB/s on each of the eight connections (AWS states 85 to 90). The client
itself waits for that time, because a proxy would use the measured cores. Reads from a neighbour use
the loopback without a delay. `restore_seconds_emulated`: the load alone, and the load after the
checkpoint was prefetched during the 2 s in which a model is created.

`tier_lost`, `tier_corrupt`: one of three nodes is lost at a random moment of a save; these are the
losses after which the newest complete step was not found again, and those after which bits differ.

Run as `.venv/bin/python -m bench.tiers [--quick] [--repeats 5] [--layers 12] [--losses 60]
[--seed 1]`.
"""

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from bench.checkpoint import Size, Training
from bench.operator_bench import say
from devcluster.argument_types import how_many
from devcluster.s3.server import serving
from spotrun_trainer.checkpoint import Checkpoints
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.reading import lanes
from spotrun_trainer.checkpoint.places import requests
from spotrun_trainer.state.tracked import Tracked
from tests.support.storage.tier_nodes import Node, World

BUCKET = "bench"
WINDOW_SECONDS = 600.0
MODEL_SECONDS = 2.0
FIRST_BYTE_SECONDS = 0.025
CONNECTION_BYTES_PER_SECOND = 90e6
SENT_BYTES: Mapping[str, Callable[..., int]] = {
    "get": lambda answer, *_: answer.meta["size"],
    "get_range": lambda _answer, _store, _path, start, stop: stop - start,
    "head": lambda *_: 0,
    "list_folders": lambda *_: 0,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small model, few losses")
    parser.add_argument("--repeats", type=how_many, default=5)
    parser.add_argument("--layers", type=how_many, default=12, help="fewer need less memory")
    parser.add_argument("--losses", type=how_many, default=60)
    parser.add_argument("--seed", type=how_many, default=1)
    arguments = parser.parse_args()
    size = Size(layers=arguments.layers)
    if arguments.quick:
        size, arguments.repeats, arguments.losses = Size(128, 2, 2_000, 64), 1, 6
    in_memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
    with tempfile.TemporaryDirectory(dir=in_memory) as folder:
        with patch.object(lanes, "LANE_BYTES", 1 << 10):  # so that parts are read like large ones
            lose_nodes(Path(folder), arguments.losses, random.Random(arguments.seed))  # noqa: S311
        with tempfile.TemporaryDirectory() as disk:
            measure(Training(size), Path(folder), Path(disk), arguments.repeats)


def measure(training: Training, memory: Path, disk: Path, repeats: int) -> None:
    """Save in both places and restore from each, in turns."""
    training.step()
    state = training.tracked
    megabytes = sum(one.nbytes for one in state.flatten().tensors.values()) / 1e6
    facts = {"megabytes": round(megabytes), "threads": torch.get_num_threads()}
    with ExitStack() as opened:
        server = opened.enter_context(serving(disk / "s3"))
        server.make_bucket(BUCKET)
        os.environ.update(server.environment())
        store = Checkpoints(f"s3://{BUCKET}/job", keep=1)
        opened.callback(store.close)
        saved, neighbour, new = nodes = [Node(memory, name) for name in ("saved", "by", "new")]
        for node in nodes:
            opened.callback(node.lose)
        save(state, [saved, neighbour], repeats, facts)
        store.save("step-1.g1", state.flatten(), rank=0, size=1, extra={})
        assert store.wait(WINDOW_SECONDS)
        saved.lose()
        ways = {
            "store": lambda: store.load(str(store.newest()), state),
            "emulated": lambda: far_away(lambda: store.load(str(store.newest()), state)),
            "neighbour": restorer([new, neighbour], state),
            "own": restorer([neighbour, new], state),
        }
        compare(ways, repeats, facts)
        for seconds in (0.0, MODEL_SECONDS):
            each = [load_preloaded(state, seconds) for _ in range(repeats)]
            say("restore_seconds_emulated", each, "s", preloaded_for=seconds, **facts)


def load_preloaded(state: Tracked, model_seconds: float) -> float:
    """Return the seconds of a restore whose data was prefetched while a model was created."""
    took = list[float]()

    def restore() -> None:
        opened = Checkpoints(f"s3://{BUCKET}/job", keep=1)
        name = str(opened.newest())
        if model_seconds:
            opened.preload(name, rank=0, size=1, local_size=1)
            time.sleep(model_seconds)
        began = time.perf_counter()
        opened.load(name, state)
        took.append(time.perf_counter() - began)
        opened.close()

    far_away(restore)
    return took[0]


def far_away(restore: Callable[[], object]) -> None:
    """Restore with requests that each take as long as one to S3."""
    with ExitStack() as patched:
        for name, sent_bytes in SENT_BYTES.items():
            slow = slowed(getattr(requests, name), sent_bytes)
            patched.enter_context(patch.object(requests, name, slow))
        restore()


def slowed(request: Callable[..., Any], sent_bytes: Callable[..., int]) -> Callable[..., Any]:
    """Return a request that waits after its answer as long as a remote store would take."""

    def ask(*arguments: Any) -> Any:  # noqa: ANN401 - any request
        until = time.perf_counter() + FIRST_BYTE_SECONDS
        answer = request(*arguments)
        until += sent_bytes(answer, *arguments) / CONNECTION_BYTES_PER_SECOND
        time.sleep(max(0.0, until - time.perf_counter()))
        return answer

    return ask


def save(state: Tracked, nodes: list[Node], repeats: int, facts: Mapping[str, object]) -> None:
    """Save on one node, with the copy on its neighbour."""
    world, call_ms, commit_ms = World(nodes, [state], 1), list[float](), list[float]()
    for step in range(repeats + 1):
        began = time.perf_counter()
        world.call(step)
        called = time.perf_counter()
        assert not world.until_done().failed
        if step:  # the first save allocates the buffers
            call_ms.append(1e3 * (called - began))
            commit_ms.append(1e3 * (time.perf_counter() - began))
    world.close()
    say("tier_call_ms", call_ms, "ms", **facts)
    say("tier_commit_ms", commit_ms, "ms", **facts)


def restorer(nodes: list[Node], state: Tracked) -> Callable[[], object]:
    """Return the function with which a process on the first node restores."""
    world = World(nodes, [state], 2)

    def restore() -> None:
        found = world.find()
        assert found is not None
        world.load(found)

    return restore


def compare(
    ways: Mapping[str, Callable[[], object]], repeats: int, facts: Mapping[str, object]
) -> None:
    """Restore with each way, in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, restore in ways.items():
            began = time.perf_counter()
            restore()
            seconds[name].append(time.perf_counter() - began)
    for name, each in seconds.items():
        say(f"tier_restore_seconds_{name}", each, "s", **facts)
    typical = {name: statistics.median(each) for name, each in seconds.items()}
    for store in ("store", "emulated"):
        said = {**facts, "from": store}
        say("tier_restore_ratio", typical[store] / typical["neighbour"], "x", **said)
        say("tier_restore_own_ratio", typical[store] / typical["own"], "x", **said)


def lose_nodes(memory: Path, losses: int, dice: random.Random) -> None:
    """Lose one of three nodes during a save, repeatedly; each time all start again."""
    nodes = [Node(memory, f"node-{number}") for number in range(3)]
    models = [nn.Linear(64, 64) for _ in nodes]
    states = [Tracked() for _ in nodes]
    for state, model in zip(states, models, strict=True):
        state.add("model", model)
    found, counted, lost, corrupt = Name(0, 0), 0, 0, 0
    for round_number in range(1, losses + 1):
        world, victim = World(nodes, states, round_number), dice.randrange(len(nodes))
        for step in range(found.step + 1, found.step + dice.randrange(2, 5)):
            fill(models, step)
            world.begin(step)
            assert not world.until_done().failed
            counted = step
        fill(models, counted + 1)
        world.begin(counted + 1)
        time.sleep(dice.uniform(0, 0.02))
        nodes[victim].lose()
        world.close()
        nodes[victim] = Node(memory, f"node-{len(nodes) + round_number}")
        after = World(nodes, states, round_number + 1)
        fill(models, -1)
        newest = after.find()
        lost += newest is None or newest.name.step < counted
        assert newest is not None, "no step is left to continue from"
        after.load(newest)
        found = newest.name
        corrupt += not all(bool((model.weight == found.step).all()) for model in models)
        after.close()
    for node in nodes:
        node.lose()
    say("tier_lost", lost, "steps", losses=losses, nodes=len(nodes))
    say("tier_corrupt", corrupt, "steps", losses=losses, nodes=len(nodes))


def fill(models: Sequence[nn.Linear], step: int) -> None:
    """Set weights that show their step."""
    with torch.no_grad():
        for model in models:
            model.weight.fill_(step)


if __name__ == "__main__":
    main()
