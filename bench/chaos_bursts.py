"""Random events during a training, one burst after the other; see bench/chaos.py.

Workers are real processes with real gloo groups, or with a stand-in for NCCL's. This module
simulates the operator, and publishes worlds as the operator does: only whole copies of the model,
if several processes hold one (`shard`). A worker without a mate then waits for one, and is in no
world meanwhile.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from bench import chaos_links
from bench.chaos_copies import Workers, whole_copies
from bench.chaos_training import POINTS, POINTS_IN_PASSES, train, train_over_nccl
from spotrun.wire import How
from tests.unit.trainer.run.elastic import Job

SECONDS = 15.0
WARM_SECONDS = 60.0  # until a joining worker is warm; the others do not wait for it
LATE_SECONDS = 2.0  # as in the operator's policies/world/join_timeout.py
EARLY_WITHIN = 8  # collectives
STACKS_SECONDS = 1.0  # until stuck processes have printed their stacks
MOST_WORKERS = 4
COPIES = 2  # the number at the start of a training
AT_RANDOM = 0.2  # the share of random kills; the others are ordered at a point
AIMED = frozenset({"reduce", "reduced", "commit", "committed", "apply", *POINTS_IN_PASSES})
STRANDED = "StrandedError"


class StuckError(Exception):
    """A burst after which the training did not continue."""


class Chaos:
    """One training, and the seed of its disturbances."""

    def __init__(self, folder: Path, seed: int, shard: int = 1, *, nccl: bool = False) -> None:
        self.num_aimed = 0
        self.num_stranded = 0  # had to be started again instead of waiting for a mate
        self.bursts = Counter[str]()
        self._folder = folder
        self._is_sharded = shard > 1
        self._points = (*POINTS, *POINTS_IN_PASSES) if self._is_sharded else POINTS
        self._dice = random.Random(seed)  # noqa: S311
        self._is_nccl = nccl  # nobody hears of a loss but from the operator
        function = train_over_nccl if nccl else train
        self._job = Job(folder, function, folder, None, 0.0, shard)
        self._workers = Workers(shard)
        self._gone = set[str]()  # workers that ended by themselves
        self._asleep: list[str] = []
        self._wrong: list[str] = []
        self._last = ""

    def begin(self) -> None:
        """Start with two workers, or with two copies."""
        workers = [worker for _ in range(COPIES) for worker in self._workers.add_copy()]
        self._publish(How.RESTART, workers)
        self._job.start(*workers)
        self._until(self._all_are_there, WARM_SECONDS)
        self._until_all_train()

    def burst(self) -> None:
        """Cause an event, and wait until all train again; raises StuckError."""
        likely = self._likely()
        (choice,) = self._dice.choices([*likely], [*likely.values()])
        self._last = choice.__name__.strip("_")
        self.bursts[self._last] += 1
        choice()
        self._until_all_train()

    def end(self) -> list[str]:
        """Kill all; returns the errors, and the output of processes that ended without a kill."""
        for worker in (*self._workers.usable, *self._asleep):
            self._job.signal(worker, signal.SIGKILL)
        self._job.close()
        # The next world was formed without these before the check: all others trained on.
        stranded = [said for said in self._job.errors if self._is_sharded and STRANDED in said]
        self.num_stranded += len(stranded)
        return [*self._wrong, *(said for said in self._job.errors if said not in stranded)]

    def _likely(self) -> dict[Callable[[], None], int]:
        """Return each possible event with its weight; losses and joins have the highest."""
        room = MOST_WORKERS - len(self._workers.usable)
        likely = {self._two_worlds: 1, self._join: 3 * room}
        if self._workers.can_lose > 0:
            rest = (self._lose, self._lose_while_away, self._leave, self._agent_stops)
            stops = (self._stop, self._stop_shortly, self._stop_while_forming)
            links = (self._cut_off, self._cut_off_shortly)
            likely |= {self._replace: 14, **dict.fromkeys((*rest, *stops, *links), 1)}
            if self._is_nccl:
                likely[self._end_early] = 6
        if self._workers.can_lose > 1:
            likely |= {self._lose: 3, self._lose_while_forming: 2}
        return likely

    # The events.

    def _lose(self) -> None:
        for _ in range(self._dice.randint(1, self._workers.can_lose)):
            self._kill(self._dice.choice(self._workers.expendable))
        self._publish(How.ABORT, self._workers.usable)

    def _lose_while_away(self) -> None:
        self._kill(self._dice.choice(self._workers.expendable))
        time.sleep(self._dice.uniform(0.1, 1.0))
        self._publish(How.ABORT, self._workers.usable)

    def _lose_while_forming(self) -> None:
        self._kill(self._dice.choice(self._workers.expendable))
        self._publish(How.ABORT, self._workers.usable)
        time.sleep(self._dice.uniform(0, 0.03))
        if victims := self._workers.expendable:  # of two copies, the other one must stay now
            self._kill_at_once(self._dice.choice(victims))
            self._publish(How.ABORT, self._workers.usable)

    def _two_worlds(self) -> None:
        self._publish(self._dice.choice([How.BOUNDARY, How.ABORT]), self._workers.usable)
        time.sleep(self._dice.uniform(0, 0.03))
        self._publish(How.ABORT, self._shuffled(self._workers.usable))

    def _replace(self) -> None:
        victim = self._dice.choice(self._workers.expendable)
        self._prepare([self._workers.parts[victim]])
        self._kill(victim)
        self._publish(How.ABORT, self._workers.usable)

    def _join(self) -> None:
        self._workers.members = self._prepare(self._workers.parts_of_joining_workers())
        self._job.switch()
        if self._dice.random() < 0.4:  # state is being sent, or the world is being formed
            time.sleep(self._dice.uniform(0, 0.05))
            self._kill_at_once(self._dice.choice(self._workers.expendable))  # others keep the state
            self._publish(How.ABORT, self._workers.usable)

    def _leave(self) -> None:
        leaver = self._dice.choice(self._workers.members)
        stays, present = self._workers.without(leaver), self._job.world_number
        self._publish(How.BOUNDARY, stays)
        self._until(lambda: self._job.progress(leaver).broken >= present)
        self._kill_at_once(leaver)

    def _end_early(self) -> None:
        spoiled, present = self._dice.choice(self._workers.members), self._job.world_number
        order = self._folder / f"{spoiled}.early"
        order.with_suffix(".part").write_text(str(self._dice.randrange(EARLY_WITHIN)))
        order.with_suffix(".part").rename(order)
        self._until(lambda: self._job.progress(spoiled).broken >= present)
        self._publish(How.ABORT, self._shuffled(self._workers.usable))

    def _stop(self) -> None:
        stopped = self._dice.choice(self._workers.members)
        self._job.signal(stopped, signal.SIGSTOP)
        time.sleep(self._dice.uniform(0, 0.2))
        self._go_on_without(stopped)
        self._job.signal(stopped, signal.SIGCONT)
        self._is_back(stopped)

    def _stop_shortly(self) -> None:
        stopped = self._dice.choice(self._workers.members)
        self._job.signal(stopped, signal.SIGSTOP)
        time.sleep(self._dice.uniform(0, 1.0))  # too short for a time-out
        self._job.signal(stopped, signal.SIGCONT)

    def _stop_while_forming(self) -> None:
        self._publish(How.ABORT, self._shuffled(self._workers.usable))
        time.sleep(self._dice.uniform(0, 0.03))
        self._stop()

    def _cut_off(self) -> None:
        away = self._dice.choice(self._workers.members)
        self._job.isolate(away)
        chaos_links.cut(self._folder, away)
        time.sleep(self._dice.uniform(0, 0.2))
        self._go_on_without(away)
        chaos_links.mend(self._folder, away)
        self._job.reach(away)
        self._is_back(away)

    def _cut_off_shortly(self) -> None:
        away = self._dice.choice(self._workers.members)
        chaos_links.cut(self._folder, away)
        time.sleep(self._dice.uniform(0, 1.0))
        chaos_links.mend(self._folder, away)

    def _agent_stops(self) -> None:
        away = self._dice.choice(self._workers.members)
        self._job.isolate(away)
        how = self._dice.choice([How.BOUNDARY, How.ABORT])
        self._publish(how, self._shuffled(self._workers.usable))
        time.sleep(self._dice.uniform(0, 0.2))
        self._go_on_without(away)
        self._job.reach(away)
        self._is_back(away)

    # The parts of events.

    def _go_on_without(self, away: str) -> None:
        """Let all but one train on in the next world; workers in no world do nothing meanwhile."""
        self._publish(How.ABORT, self._workers.without(away))
        self._until(self._all_are_there)
        before = {each: len(self._lines(each)) for each in (away, *self._workers.idle)}
        self._until_all_train()
        for each, lines in before.items():
            if len(self._lines(each)) > lines + 1:  # one may be of the last step together
                self._wrong.append(f"{each} trained on alone after {self._last}")

    def _is_back(self, worker: str) -> None:
        """Let a worker that was left out come back, or not."""
        fate = self._dice.random()
        if fate < 0.5:
            self._publish(How.BOUNDARY, self._shuffled([*self._workers.usable, worker]))
            if self._is_nccl:
                self._break_off_if_late()
        elif fate < 0.75:
            self._asleep.append(worker)  # it must not train on alone
        else:
            self._kill_at_once(worker)

    def _break_off_if_late(self) -> None:
        """End all waits if someone does not arrive in time: it may still wait in an older world."""
        try:
            self._until(self._all_are_there, LATE_SECONDS)
        except StuckError:
            self._publish(How.ABORT, self._workers.usable)

    def _prepare(self, parts: Sequence[int]) -> list[str]:
        """Let joining workers become warm while the others train; returns the world with them."""
        joining_workers = [self._workers.add(part) for part in parts]
        usable = self._shuffled([*self._workers.usable, *joining_workers])
        members = whole_copies(usable, self._workers.parts, joining_workers)
        self._job.publish(How.BOUNDARY, *members, switch=False)
        self._job.start(*joining_workers)
        are_ready = lambda: all(self._job.progress(each).ready for each in joining_workers)  # noqa: E731
        self._until(are_ready, WARM_SECONDS)
        self._workers.usable = usable
        return members

    def _kill(self, worker: str) -> None:
        if self._dice.random() < AT_RANDOM:
            time.sleep(self._dice.uniform(0, 0.1))
            self._kill_at_once(worker)
            return
        point = self._dice.choice(self._points)
        (self._folder / f"{worker}.order").write_text(point)
        # Another worker may die first: then this one waits for a world, and is killed there.
        until = time.monotonic() + 0.5
        while self._job.is_alive(worker) and time.monotonic() < until:
            time.sleep(0.005)
        self.num_aimed += point in AIMED and not self._job.is_alive(worker)
        self._kill_at_once(worker)

    def _kill_at_once(self, worker: str) -> None:
        self._job.signal(worker, signal.SIGKILL)
        self._until(lambda: not self._job.is_alive(worker))
        self._workers.lose(worker)

    def _publish(self, how: How, workers: list[str]) -> None:
        self._workers.form(workers)
        self._job.publish(how, *self._workers.members)

    def _shuffled(self, workers: list[str]) -> list[str]:
        return self._dice.sample(workers, len(workers))

    def _until_all_train(self) -> None:
        number = 0
        while number != (number := self._job.world_number):  # another world may follow meanwhile
            self._until(self._all_are_there)
            self._until(partial(self._have_grown, self._job.world_number, self._sizes()))
        self._workers.holders = set(self._workers.members)

    def _all_are_there(self) -> bool:
        self._go_on_without_stranded()
        newest, members = self._job.world_number, self._workers.members
        return all(self._job.progress(each).world_number == newest for each in members)

    def _have_grown(self, world_number: int, sizes: Mapping[str, int]) -> bool:
        """Whether all members of a world have made another step, or there is another world."""
        self._go_on_without_stranded()
        if world_number != self._job.world_number:
            return True
        return all(size > sizes[each] for each, size in self._sizes().items())

    def _sizes(self) -> dict[str, int]:
        files = {each: self._folder / f"{each}.jsonl" for each in self._workers.members}
        return {each: file.stat().st_size if file.exists() else 0 for each, file in files.items()}

    def _go_on_without_stranded(self) -> None:
        """Form the next world if a member has ended because its mates are gone.

        The real operator starts it again; here a joining worker takes its place later.
        """
        for worker in [each for each in self._workers.members if not self._job.is_alive(each)]:
            (ended,) = self._job.ended(worker)
            self._gone.add(worker)
            self._workers.lose(worker)
            if STRANDED not in ended.error or not self._workers.hold_all:
                raise StuckError(f"{self._last}: {worker} ended: {ended.error}\n{ended.said}")
            self.num_stranded += 1
            self._publish(How.ABORT, self._workers.usable)

    def _lines(self, worker: str) -> list[str]:
        return (self._folder / f"{worker}.jsonl").read_text().splitlines()

    def _until(self, holds: Callable[[], object], seconds: float = SECONDS) -> None:
        limit = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > limit:
                said = f"{self._last}, in world {self._job.world_number} of {self._workers.members}"
                raise StuckError("\n".join([said, *self._where_all_stand()]))
            time.sleep(0.005)

    def _where_all_stand(self) -> list[str]:
        here = (each for each in self._workers.parts if each not in self._gone)
        alive = [each for each in here if self._job.is_alive(each)]
        for each in alive:
            self._job.signal(each, signal.SIGUSR1)
        time.sleep(STACKS_SECONDS)
        return [
            f"{each}: {self._job.progress(each)}\n{(self._folder / f'{each}.stacks').read_text()}"
            for each in alive
        ]
