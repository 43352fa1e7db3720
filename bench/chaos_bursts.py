"""Random events in the life of a training, one burst after the other; see bench/chaos.py.

Workers are real processes with real groups of gloo; the operator is played here, and publishes
worlds as the operator does.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bench import chaos_links
from bench.chaos_training import POINTS, train
from spotrun.wire import How
from tests.unit.trainer.run.elastic import Job

SECONDS = 15.0
WARM_SECONDS = 60.0  # until a newcomer is warm, for which nobody waits
STACKS_SECONDS = 1.0  # until those that are stuck have said where
MOST_WORKERS = 4
AT_RANDOM = 0.2  # of the kills; the others are ordered to a point
AIMED = frozenset({"reduce", "reduced", "commit", "committed", "apply"})


class StuckError(Exception):
    """A burst after which the training did not go on."""


class Chaos:
    """One training, and a seed by which it is disturbed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.num_aimed = 0
        self.bursts = Counter[str]()
        self._folder = folder
        self._dice = random.Random(seed)  # noqa: S311
        self._job = Job(folder, train, folder, None)
        self._names = 0
        self._members: list[str] = []
        self._asleep: list[str] = []
        self._alone: list[str] = []
        self._last = ""

    def begin(self) -> None:
        """Start with two workers."""
        self._members = [self._name(), self._name()]
        self._job.publish(How.RESTART, *self._members)
        self._job.start(*self._members)
        self._until(self._all_are_there, WARM_SECONDS)
        self._until_all_train()

    def burst(self) -> None:
        """Let something happen, and wait until all train on; raises StuckError."""
        likely = self._likely()
        (choice,) = self._dice.choices([*likely], [*likely.values()])
        self._last = choice.__name__.strip("_")
        self.bursts[self._last] += 1
        choice()
        self._until_all_train()

    def end(self) -> list[str]:
        """Kill all; returns what went wrong, and what processes said that had not been killed."""
        for worker in (*self._members, *self._asleep):
            self._job.signal(worker, signal.SIGKILL)
        self._job.close()
        return [*self._alone, *self._job.errors]

    def _likely(self) -> dict[Callable[[], None], int]:
        """Return each event that may happen now with its weight: losses and joins have the most."""
        room = MOST_WORKERS - len(self._members)
        likely = {self._two_worlds: 1, self._join: 3 * room}
        if len(self._members) > 1:
            rest = (self._lose, self._lose_while_away, self._leave, self._agent_stops)
            stops = (self._stop, self._stop_shortly, self._stop_while_forming)
            links = (self._cut_off, self._cut_off_shortly)
            likely |= {self._replace: 14, **dict.fromkeys((*rest, *stops, *links), 1)}
        if room < 2:
            likely |= {self._lose: 3, self._lose_while_forming: 2}
        return likely

    # What happens.

    def _lose(self) -> None:
        self._kill(self._dice.randint(1, len(self._members) - 1))
        self._publish(How.ABORT, self._members)

    def _lose_while_away(self) -> None:
        self._kill(1)
        time.sleep(self._dice.uniform(0.1, 1.0))
        self._publish(How.ABORT, self._members)

    def _lose_while_forming(self) -> None:
        self._kill(1)
        self._publish(How.ABORT, self._members)
        time.sleep(self._dice.uniform(0, 0.03))
        self._kill_at_once(self._dice.choice(self._members))
        self._publish(How.ABORT, self._members)

    def _two_worlds(self) -> None:
        self._publish(self._dice.choice([How.BOUNDARY, How.ABORT]), self._members)
        time.sleep(self._dice.uniform(0, 0.03))
        self._publish(How.ABORT, self._shuffled(self._members))

    def _replace(self) -> None:
        members = self._prepare()
        self._kill(1)
        stay = [each for each in members if self._job.is_alive(each)]
        self._publish(How.ABORT, stay)

    def _join(self) -> None:
        before, self._members = self._members, self._prepare()
        self._job.switch()
        if self._dice.random() < 0.4:  # state is on its way, or the world is being formed
            time.sleep(self._dice.uniform(0, 0.05))
            safe = self._dice.choice(before)  # somebody keeps the state
            victims = [each for each in self._members if each != safe]
            self._kill_at_once(self._dice.choice(victims))
            self._publish(How.ABORT, self._members)

    def _leave(self) -> None:
        leaver = self._dice.choice(self._members)
        stays = self._without(leaver)
        self._publish(How.BOUNDARY, stays)
        self._until(lambda: self._job.progress(leaver).broken)
        self._kill_at_once(leaver)

    def _stop(self) -> None:
        stopped = self._dice.choice(self._members)
        self._job.signal(stopped, signal.SIGSTOP)
        time.sleep(self._dice.uniform(0, 0.2))
        self._go_on_without(stopped)
        self._job.signal(stopped, signal.SIGCONT)
        self._is_back(stopped)

    def _stop_shortly(self) -> None:
        stopped = self._dice.choice(self._members)
        self._job.signal(stopped, signal.SIGSTOP)
        time.sleep(self._dice.uniform(0, 1.0))  # too short for anybody to conclude anything
        self._job.signal(stopped, signal.SIGCONT)

    def _stop_while_forming(self) -> None:
        self._publish(How.ABORT, self._shuffled(self._members))
        time.sleep(self._dice.uniform(0, 0.03))
        self._stop()

    def _cut_off(self) -> None:
        away = self._dice.choice(self._members)
        self._job.isolate(away)
        chaos_links.cut(self._folder, away)
        time.sleep(self._dice.uniform(0, 0.2))
        self._go_on_without(away)
        chaos_links.mend(self._folder, away)
        self._job.reach(away)
        self._is_back(away)

    def _cut_off_shortly(self) -> None:
        away = self._dice.choice(self._members)
        chaos_links.cut(self._folder, away)
        time.sleep(self._dice.uniform(0, 1.0))
        chaos_links.mend(self._folder, away)

    def _agent_stops(self) -> None:
        away = self._dice.choice(self._members)
        self._job.isolate(away)
        self._publish(self._dice.choice([How.BOUNDARY, How.ABORT]), self._shuffled(self._members))
        time.sleep(self._dice.uniform(0, 0.2))
        self._go_on_without(away)
        self._job.reach(away)
        self._is_back(away)

    # How it happens.

    def _go_on_without(self, away: str) -> None:
        """All but one train on in the next world, and that one does nothing meanwhile."""
        self._publish(How.ABORT, self._without(away))
        self._until(self._all_are_there)
        before = self._lines(away)
        self._until_all_train()
        if len(self._lines(away)) > len(before) + 1:  # of the step that it was in with the others
            self._alone.append(f"{away} trained on alone after {self._last}")

    def _is_back(self, worker: str) -> None:
        """Let one that was left out come back, or not."""
        fate = self._dice.random()
        if fate < 0.5:
            self._publish(How.BOUNDARY, self._shuffled([*self._members, worker]))
        elif fate < 0.75:
            self._asleep.append(worker)  # and it must not train on alone
        else:
            self._kill_at_once(worker)

    def _prepare(self) -> list[str]:
        """Let a newcomer get warm while the others train; returns the world with it."""
        newcomer = self._name()
        members = self._shuffled([*self._members, newcomer])
        self._job.publish(How.BOUNDARY, *members, switch=False)
        self._job.start(newcomer)
        self._until(lambda: self._job.progress(newcomer).ready, WARM_SECONDS)
        return members

    def _kill(self, count: int) -> None:
        for worker in self._dice.sample(self._members, count):
            if self._dice.random() < AT_RANDOM:
                time.sleep(self._dice.uniform(0, 0.1))
                self._kill_at_once(worker)
                continue
            point = self._dice.choice(POINTS)
            (self._folder / f"{worker}.order").write_text(point)
            # Another one's death may come first: then it waits for a world, and dies of this.
            until = time.monotonic() + 0.5
            while self._job.is_alive(worker) and time.monotonic() < until:
                time.sleep(0.005)
            self.num_aimed += point in AIMED and not self._job.is_alive(worker)
            self._kill_at_once(worker)

    def _kill_at_once(self, worker: str) -> None:
        self._job.signal(worker, signal.SIGKILL)
        self._until(lambda: not self._job.is_alive(worker))
        self._members = self._without(worker)

    def _publish(self, how: How, members: list[str]) -> None:
        self._members = members
        self._job.publish(how, *members)

    def _name(self) -> str:
        self._names += 1
        return f"w{self._names}"

    def _without(self, worker: str) -> list[str]:
        return [each for each in self._members if each != worker]

    def _shuffled(self, members: list[str]) -> list[str]:
        return self._dice.sample(members, len(members))

    def _until_all_train(self) -> None:
        self._until(self._all_are_there)
        sizes = {each: self._size(each) for each in self._members}
        self._until(lambda: all(self._size(each) > size for each, size in sizes.items()))

    def _all_are_there(self) -> bool:
        newest = self._job.world_number
        return all(self._job.progress(each).world_number == newest for each in self._members)

    def _size(self, worker: str) -> int:
        lines = self._folder / f"{worker}.jsonl"
        return lines.stat().st_size if lines.exists() else 0

    def _lines(self, worker: str) -> list[str]:
        return (self._folder / f"{worker}.jsonl").read_text().splitlines()

    def _until(self, holds: Callable[[], object], seconds: float = SECONDS) -> None:
        limit = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > limit:
                said = f"{self._last}, in world {self._job.world_number} of {self._members}"
                raise StuckError("\n".join([said, *self._where_all_stand()]))
            time.sleep(0.005)

    def _where_all_stand(self) -> list[str]:
        everybody = (f"w{number + 1}" for number in range(self._names))
        alive = [each for each in everybody if self._job.is_alive(each)]
        for each in alive:
            self._job.signal(each, signal.SIGUSR1)
        time.sleep(STACKS_SECONDS)
        return [
            f"{each}: {self._job.progress(each)}\n{(self._folder / f'{each}.stacks').read_text()}"
            for each in alive
        ]
