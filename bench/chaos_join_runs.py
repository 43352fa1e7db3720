"""Trainings in which machines are lost after joins, one after the other; see bench/chaos.py.

A training that gets stuck is counted and ended, and the next one begins. The progress is printed
meanwhile.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from bench.chaos_bursts import StuckError
from bench.early_end import EarlyEnd, EndedEarlyError
from bench.operator_bench import say

PROGRESS_SECONDS = 5.0


class Training(Protocol):
    """A training in which a machine is lost after each join."""

    kills: Counter[str]
    stalls: list[float]

    def begin(self) -> None:
        """Start it; raises StuckError."""

    def kill(self, *, joining_worker: bool) -> None:
        """Wait for a join and lose a machine; raises StuckError."""

    def end(self) -> list[str]:
        """End all processes; returns other errors."""

    def steps_lost(self) -> int:
        """The number of repeated steps."""


Begin = Callable[[Path, int, Callable[[], None]], Training]
"""A function that begins a training in a folder, with a seed and a callback to call in waits."""


class JoinRuns:
    """The wanted number of losses after joins, in as few trainings as needed."""

    def __init__(
        self, scratch: Path, seed: int, wanted: int, early_end: EarlyEnd, begin: Begin
    ) -> None:
        self.num_stuck = 0
        self.errors = list[str]()
        self._scratch = scratch
        self._seed = seed
        self._wanted = wanted
        self._early_end = early_end
        self._begin = begin
        self._trainings = list[Training]()
        self._began = self._said = time.monotonic()

    @property
    def is_well(self) -> bool:
        """Whether machines were lost and nothing went wrong."""
        is_done = self._kills.total() > 0 and not self._early_end.is_by_signal
        return is_done and not (self.num_stuck or self.errors or self.steps_lost)

    @property
    def steps_lost(self) -> int:
        """The number of repeated steps in all trainings."""
        return sum(one.steps_lost() for one in self._trainings)

    @property
    def _kills(self) -> Counter[str]:
        return sum((one.kills for one in self._trainings), Counter[str]())

    def run(self) -> None:
        """Do all losses; ends early on request, or if two trainings in a row have no loss."""
        num_idle = 0
        while self._kills.total() < self._wanted and num_idle < 2:
            try:
                before = self._kills.total()
                self._run_one()
            except StuckError as error:
                self.num_stuck += 1
                print(f"stuck: {error}", file=sys.stderr, flush=True)
                num_idle = 0 if self._kills.total() > before else num_idle + 1
            except EndedEarlyError:
                break
        self._say_progress()

    def say(self) -> None:
        """Print the figures so far."""
        facts: dict[str, object] = {"of": self._wanted, "trainings": len(self._trainings)}
        if self._early_end.reason:
            facts["ended_early"] = self._early_end.reason
        kills = self._kills
        seconds = [stall for one in self._trainings for stall in one.stalls]
        say("join_window_kills", kills.total(), "kills", seed=self._seed, kinds=kills, **facts)
        say("join_window_steps_lost", self.steps_lost, "steps", **facts)
        say("join_window_stuck", self.num_stuck, "trainings", **facts)
        if seconds:
            say("join_window_seconds", seconds, "s", **facts)

    def _run_one(self) -> None:
        number = len(self._trainings)
        folder = self._scratch / f"joins-{number}"
        folder.mkdir()
        training = self._begin(folder, self._seed + number, self._look)
        self._trainings.append(training)
        try:
            training.begin()
            while (num_kills := self._kills.total()) < self._wanted:
                training.kill(joining_worker=num_kills % 2 == 0)
        finally:
            self.errors += training.end()

    def _look(self) -> None:
        if time.monotonic() - self._said > PROGRESS_SECONDS:
            self._say_progress()
        self._early_end.check()

    def _say_progress(self) -> None:
        self._said = time.monotonic()
        seconds = self._said - self._began
        print(
            f"{self._kills.total()} of {self._wanted} losses, {self.steps_lost} steps lost, "
            f"{self.num_stuck} stuck, {seconds:.0f} s",
            file=sys.stderr,
            flush=True,
        )
