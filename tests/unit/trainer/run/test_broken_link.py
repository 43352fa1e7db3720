"""A connection between two healthy workers breaks: with real agents and the operator's decisions.

Each training process notes its connections; one that two of them have is the link between them.
"""

import json
import socket
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from bench import chaos_links, chaos_training
from bench.chaos_compare import compare
from bench.chaos_operator import Operated
from spotrun.api.status import Entry
from spotrun.state.stored.failures import NO_RESTARTS
from spotrun_trainer.agent.state import BROKEN_SECONDS

WORKERS = ("w0", "w1", "w2")
STEP_SECONDS = 0.03
PATIENCE_SECONDS = 60.0

Link = tuple[int, int]
"""The ports of its two ends."""


def train(folder: Path) -> None:
    """Train, and break a link once there is a file that names its ports."""
    threading.Thread(target=_break_links, args=(folder,), daemon=True).start()
    chaos_training.train(folder, None, STEP_SECONDS)


def _break_links(folder: Path) -> None:
    known = set[Link]()
    while True:
        time.sleep(0.01)
        found = {(near, far): number for (number, _), near, far in chaos_links.sockets() if far}
        if found.keys() - known:
            known |= found.keys()
            with (folder / f"{threading.get_native_id()}.links").open("w") as file:
                json.dump(sorted(known), file)
        for order in folder.glob("*.break"):
            near, far = map(int, order.stem.split("-"))
            if (number := found.get((near, far))) is not None:
                with socket.socket(fileno=number) as link:
                    link.shutdown(socket.SHUT_RDWR)
                    link.detach()
                order.unlink()


def test_all_go_on_in_process_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    job = Operated(folder, len(WORKERS), train, (folder,))
    try:
        until(lambda: all(num_steps(folder, each) > 2 for each in WORKERS))
        before = job.status.world
        near, far = a_link(folder)
        (folder / f"{near}-{far}.break").touch()
        broken_at = time.monotonic()
        until(lambda: job.status.world.number > before.number)
        after = {each: num_steps(folder, each) + 1 for each in WORKERS}
        until(lambda: all(num_steps(folder, each) > count for each, count in after.items()))
        stall_seconds = time.monotonic() - broken_at
        world, restarts = job.status.world, job.status.restarts
    finally:
        errors = job.close()
    assert errors == []
    assert (world.number, world.entry, world.breaks) == (before.number + 1, Entry.ABORT, 1)
    assert world.members == before.members
    assert restarts == NO_RESTARTS
    assert stall_seconds < BROKEN_SECONDS  # nobody waited for what the agents do in the end
    for each in WORKERS:
        steps = steps_of(folder, each)
        assert all(later == earlier + 1 for earlier, later in pairwise(steps))
    assert compare(tmp_path).wrong == []


def a_link(folder: Path) -> Link:
    noted = [set(map(tuple, json.loads(file.read_text()))) for file in folder.glob("*.links")]
    assert len(noted) == len(WORKERS)
    shared = [
        (near, far)
        for ours in noted
        for near, far in ours
        if any((far, near) in theirs for theirs in noted if theirs is not ours)
    ]
    return min(shared)


def num_steps(folder: Path, worker: str) -> int:
    return len(steps_of(folder, worker))


def steps_of(folder: Path, worker: str) -> list[int]:
    file = folder / f"{worker}.jsonl"
    whole = file.read_text().rpartition("\n")[0] if file.exists() else ""
    lines = [json.loads(line) for line in whole.splitlines()]
    return [line["step"] for line in lines if "sum" in line]


def until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.01)
