"""Random changes of worlds, one burst after the other, and what the training makes of them.

Workers are real processes with real groups of gloo; an operator that is played here publishes
worlds as the operator does. A burst is one of: workers that are killed (at a random moment, or
ordered to die around a reduction, a commit or an update), also while the next world is formed
or state is sent; an operator that is away meanwhile; a newcomer, also in the place of one that is
lost; a worker that leaves; one that is stopped, left out, and wakes up later; two worlds at once.

    chaos_bursts      bursts after which all members trained on within SECONDS
    chaos_stuck       bursts after which they did not
    chaos_aimed       kills that hit between the begin of a reduction and the end of its update
    chaos_mismatches  steps whose state differs from that of an undisturbed training in any bit, in
                      any worker, or that a worker made twice, and processes that ended by an error

Run as `.venv/bin/python bench/chaos.py [--quick] [--seeds 10] [--bursts 50]`.
"""

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bench.chaos_training import POINTS, train
from bench.operator_bench import say
from spotrun.wire import How
from tests.trainer_world import PATIENCE_SECONDS, Process
from tests.unit.trainer.run.elastic import Job

SECONDS = 15.0
WARM_SECONDS = 60.0  # until a newcomer is warm, for which nobody waits
STACKS_SECONDS = 1.0  # until those that are stuck have said where
MOST_WORKERS = 4
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
        many = len(self._members) > 1
        room = MOST_WORKERS - len(self._members)
        choices: list[Callable[[], None]] = [self._two_worlds, *[self._join] * (2 * room)]
        choices += [self._lose, self._lose_while_away, self._leave, self._stop] if many else []
        choices += [self._replace] * 4 if many else []
        choices += [self._lose, self._lose, self._lose_while_forming] if room < 2 else []
        choice = self._dice.choice(choices)
        self._last = choice.__name__.strip("_")
        self.bursts[self._last] += 1
        choice()
        self._until_all_train()

    def end(self) -> list[str]:
        """Kill all; returns what processes said that had not been killed."""
        for worker in (*self._members, *self._asleep):
            self._job.signal(worker, signal.SIGKILL)
        self._job.close()
        return self._job.errors

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
        stays = [each for each in self._members if each != leaver]
        self._publish(How.BOUNDARY, stays)
        self._until(lambda: self._job.telling(leaver).broken)
        self._kill_at_once(leaver)

    def _stop(self) -> None:
        stopped = self._dice.choice(self._members)
        self._job.signal(stopped, signal.SIGSTOP)
        time.sleep(self._dice.uniform(0, 0.2))
        self._publish(How.ABORT, [each for each in self._members if each != stopped])
        self._until_all_train()
        self._job.signal(stopped, signal.SIGCONT)
        if self._dice.random() < 0.5:
            self._publish(How.BOUNDARY, self._shuffled([*self._members, stopped]))
        else:
            self._asleep.append(stopped)  # and it must not train on alone

    # How it happens.

    def _prepare(self) -> list[str]:
        """Let a newcomer get warm while the others train; returns the world with it."""
        newcomer = self._name()
        members = self._shuffled([*self._members, newcomer])
        self._job.publish(How.BOUNDARY, *members, switch=False)
        self._job.start(newcomer)
        self._until(lambda: self._job.telling(newcomer).ready, WARM_SECONDS)
        return members

    def _kill(self, count: int) -> None:
        for worker in self._dice.sample(self._members, count):
            if self._dice.random() < 0.3:
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
        self._members = [each for each in self._members if each != worker]

    def _publish(self, how: How, members: list[str]) -> None:
        self._members = members
        self._job.publish(how, *members)

    def _name(self) -> str:
        self._names += 1
        return f"w{self._names}"

    def _shuffled(self, members: list[str]) -> list[str]:
        return self._dice.sample(members, len(members))

    def _until_all_train(self) -> None:
        self._until(self._all_are_there)
        sizes = {each: self._size(each) for each in self._members}
        self._until(lambda: all(self._size(each) > size for each, size in sizes.items()))

    def _all_are_there(self) -> bool:
        newest = self._job.generation
        return all(self._job.telling(each).generation == newest for each in self._members)

    def _size(self, worker: str) -> int:
        lines = self._folder / f"{worker}.jsonl"
        return lines.stat().st_size if lines.exists() else 0

    def _until(self, holds: Callable[[], object], seconds: float = SECONDS) -> None:
        limit = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > limit:
                said = f"{self._last}, in world {self._job.generation} of {self._members}"
                raise StuckError("\n".join([said, *self._where_all_stand()]))
            time.sleep(0.005)

    def _where_all_stand(self) -> list[str]:
        everybody = (f"w{number + 1}" for number in range(self._names))
        alive = [each for each in everybody if self._job.is_alive(each)]
        for each in alive:
            self._job.signal(each, signal.SIGUSR1)
        time.sleep(STACKS_SECONDS)
        return [
            f"{each}: {self._job.telling(each)}\n{(self._folder / f'{each}.stacks').read_text()}"
            for each in alive
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few bursts of two seeds")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--bursts", type=int, default=50)
    parser.add_argument("--first-seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.seeds, arguments.bursts = 2, 10
    bursts, stuck, aimed, errors = Counter[str](), 0, 0, list[str]()
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            folder = Path(scratch) / f"seed-{seed}"
            folder.mkdir()
            chaos = Chaos(folder, seed)
            try:
                chaos.begin()
                for _ in range(arguments.bursts):
                    chaos.burst()
            except StuckError as error:
                stuck += 1
                print(f"seed {seed}: stuck after {error}", file=sys.stderr)
            finally:
                errors += [f"seed {seed}: {said}" for said in chaos.end()]
            bursts += chaos.bursts
            aimed += chaos.num_aimed
        mismatches = compare(Path(scratch))
    for wrong in (*errors, *mismatches):
        print(wrong, file=sys.stderr)
    say("chaos_bursts", bursts.total() - stuck, "bursts", seeds=arguments.seeds, kinds=dict(bursts))
    say("chaos_stuck", stuck, "bursts")
    say("chaos_aimed", aimed, "kills")
    say("chaos_mismatches", len(mismatches) + len(errors), "steps")
    sys.exit(bool(stuck or mismatches or errors))


def compare(scratch: Path) -> list[str]:
    """Where a worker's lines are not those of a training that nobody disturbs."""
    found = {file: _lines(file) for file in sorted(scratch.glob("*/*.jsonl"))}
    last = max(line["step"] for lines in found.values() for line in lines)
    alone = scratch / "alone.jsonl"
    ended = Process({}, train, scratch, last).ended(time.monotonic() + 10 * PATIENCE_SECONDS)
    assert not ended.error, ended.said
    expected = {_key(line): line for line in _lines(alone)}
    wrong = []
    for file, lines in found.items():
        wrong += [f"{file}: {line}" for line in lines if not _is_as(line, expected[_key(line)])]
        twice = [key for key, count in Counter(map(_key, lines)).items() if count > 1]
        wrong += [f"{file}: twice {key}" for key in twice]
    return wrong


def _lines(file: Path) -> list[dict[str, float]]:
    whole = file.read_text().rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def _key(line: dict[str, float]) -> tuple[float, bool]:
    return line["step"], "mean" in line


def _is_as(line: dict[str, float], expected: dict[str, float]) -> bool:
    if "mean" in line:  # a sum over processes, in their order
        return abs(line["mean"] - expected["mean"]) < 1e-6
    return line == expected


if __name__ == "__main__":
    main()
