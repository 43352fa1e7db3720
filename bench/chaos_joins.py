"""Kills in the first moments after a join, of joining workers and of workers that trained before.

Each kill takes a whole machine. Half of them close no connection: then only missing heartbeats and
silence show the loss. See bench/chaos.py.
"""

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from bench.chaos_bursts import STACKS_SECONDS, StuckError
from bench.chaos_operator import Operated
from bench.chaos_training import train
from bench.chaos_worker import LocalWorker

WINDOW_SECONDS = 0.3
STEP_SECONDS = 0.03  # at least, so that a join is a part of the window and not a moment
WORKERS = 3
SECONDS = 15.0
JOIN_SECONDS = 90.0  # until a replacement is warm; the others do not wait for it


class Joins:
    """One training, in which a machine is lost after each join.

    `look` is called repeatedly while it waits, and may end the wait by raising an error.
    """

    def __init__(self, folder: Path, seed: int, look: Callable[[], None] = lambda: None) -> None:
        self.kills = Counter[str]()
        self.stalls = list[float]()
        self._folder = folder
        self._look = look
        self._dice = random.Random(seed)  # noqa: S311
        self._first = frozenset({f"w{worker_id}" for worker_id in range(WORKERS)})
        self._job = Operated(folder, WORKERS, train, (folder, None, STEP_SECONDS))
        self._joined = 0  # the newest world that a worker joined

    def begin(self) -> None:
        """Start all workers and lose one, so that another one joins; raises StuckError."""
        if not self._until(self._all_step, JOIN_SECONDS):
            raise self._stuck("the training does not begin")
        self._job.workers[0].vanish(silently=False)

    def kill(self, *, joining_worker: bool) -> None:
        """Wait for a join and lose a machine; raises StuckError if the others stop training."""
        old, new = self._until_one_joins()
        while len(old) < 2:  # one of them must survive
            old, new = self._until_one_joins()
        time.sleep(self._dice.uniform(0, WINDOW_SECONDS))
        victim = self._dice.choice(new if joining_worker else old)
        silently = self._dice.random() < 0.5
        kind = f"{'joining worker' if joining_worker else 'member'}{' silent' if silently else ''}"
        self.kills[kind] += 1
        others = [one for one in (*old, *new) if one is not victim]
        began = time.monotonic()
        victim.vanish(silently=silently)
        after = {one: self._num_lines(one) + 1 for one in others}  # of a step that had begun
        found = self._until(lambda: self._trained_on(after, victim), SECONDS)
        self.stalls.append(time.monotonic() - began)
        if not found:
            raise self._stuck(f"after the loss of {victim.name}, a {kind}")

    def end(self) -> list[str]:
        """End all processes; returns other errors."""
        return self._job.close()

    def steps_lost(self) -> int:
        """The number of steps that a worker repeated, or began again while others had done them."""
        lost = 0
        for file in self._folder.glob("*.jsonl"):
            steps = [int(line["step"]) for line in _lines(file) if "sum" in line]
            lost += sum(max(a - b + 1, 0) for a, b in pairwise(steps))
            if steps and steps[0] == 1 and file.stem not in self._first:
                lost += 1
        return lost

    def _until_one_joins(self) -> tuple[list[LocalWorker], list[LocalWorker]]:
        if not self._until(self._has_joined, JOIN_SECONDS):
            raise self._stuck("no worker joined")
        world = self._job.status.world
        assert world.state_holders, "a worker has joined others that trained before"
        self._joined = world.number
        members = [self._job.workers[worker_id] for worker_id in self._job.members]
        old = [one for one in members if one.worker_id in world.holder_set]
        return old, [one for one in members if one not in old]

    def _all_step(self) -> bool:
        workers = list(self._job.workers.values())
        return len(workers) == WORKERS and all(map(self._num_lines, workers))

    def _has_joined(self) -> bool:
        world = self._job.status.world
        if not world.is_active or not world.state_holders:
            return False
        is_joined = not set(self._job.members) <= world.holder_set
        return is_joined and world.number > self._joined

    def _trained_on(self, after: dict[LocalWorker, int], victim: LocalWorker) -> bool:
        if victim.worker_id in self._job.members:
            return False
        return all(self._num_lines(one) > count for one, count in after.items())

    def _num_lines(self, worker: LocalWorker) -> int:
        file = self._folder / f"{worker.name}.jsonl"
        return file.read_text().count('"sum"') if file.exists() else 0

    def _until(self, holds: Callable[[], bool], seconds: float) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if holds():
                return True
            self._look()
            time.sleep(0.002)
        return False

    def _stuck(self, when: str) -> StuckError:
        """Return the error, with the position of each worker."""
        workers = list(self._job.workers.values())
        stacks = {one: self._folder / f"{one.name}.stacks" for one in workers}
        stacks = {one: file for one, file in stacks.items() if file.exists()}  # have trained
        for one in stacks:
            one.signal(signal.SIGUSR1)
        time.sleep(STACKS_SECONDS)
        said = [f"{one.name}: {one.progress}\n{file.read_text()}" for one, file in stacks.items()]
        return StuckError("\n".join([f"{when}, in {self._job.status.world}", *said]))


def _lines(file: Path) -> list[dict[str, float]]:
    whole = file.read_text().rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]
