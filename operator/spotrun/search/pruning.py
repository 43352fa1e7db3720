"""Whether a trial is stopped early: by its reports at a step, never by the time it took."""

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

from spotrun.search.draws import draw
from spotrun.search.trial import Direction, Outcome, Trial


@dataclass(frozen=True, slots=True)
class NoPruning:
    """Every trial may train to its end."""


@dataclass(frozen=True, slots=True)
class Median:
    """Stop a trial whose best value is worse than the median of complete ones at that step."""

    startup_trials: int = 5  # complete ones, before the first is stopped
    warmup_steps: int = 0  # of each trial, in which it is not stopped


@dataclass(frozen=True, slots=True)
class Asha:
    """Asynchronous successive halving (Li et al. 2020): at each rung the best share goes on.

    The first rung is at `grace_steps`, each further one at `reduction` times as many steps.
    """

    grace_steps: int
    max_steps: int
    reduction: int = 3

    def __post_init__(self) -> None:
        if self.reduction < 2:
            raise ValueError(f"a reduction of {self.reduction} stops nobody: give 2 or more")
        if not 0 < self.grace_steps < self.max_steps:
            raise ValueError(
                f"graceSteps is {self.grace_steps} and maxSteps {self.max_steps}: give a grace of "
                "at least one step, and fewer than the most"
            )

    @property
    def rungs(self) -> tuple[int, ...]:
        """The steps at which trials are compared; at the last step there is nothing to stop."""
        steps, step = [], self.grace_steps
        while step < self.max_steps:
            steps.append(step)
            step *= self.reduction
        return tuple(steps)


@dataclass(frozen=True, slots=True)
class Hyperband:
    """Brackets of successive halving (Li et al. 2018) that differ in their first rung.

    A trial's number says which bracket it is in, in the published proportions; trials are compared
    within their bracket.
    """

    grace_steps: int
    max_steps: int
    reduction: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        _ = self.brackets

    @property
    def brackets(self) -> tuple[Asha | NoPruning, ...]:
        """The brackets, from the one that stops soonest to the one that stops nobody."""
        rungs = Asha(self.grace_steps, self.max_steps, self.reduction).rungs
        halving = (Asha(rung, self.max_steps, self.reduction) for rung in rungs)
        return (*halving, NoPruning())

    def bracket_of(self, number: int) -> int:
        """Return the place of a trial's bracket."""
        return _bracket_of(self, number)


@lru_cache(4096)
def _bracket_of(hyperband: Hyperband, number: int) -> int:
    """Keep what is asked for each pair of trials: a thousand of them have many."""
    most = len(hyperband.brackets) - 1
    # As many as Hyperband begins in a bracket with that many rungs.
    shares = [
        math.ceil((most + 1) / (rungs + 1) * hyperband.reduction**rungs)
        for rungs in range(most, -1, -1)
    ]
    left = draw(hyperband.seed, "bracket", number) * sum(shares)
    for bracket, share in enumerate(shares):
        left -= share
        if left < 0:
            return bracket
    return most


Pruning = NoPruning | Median | Asha | Hyperband


@dataclass(frozen=True, slots=True)
class Stop:
    """The reason to stop a trial, for people."""

    step: int
    why: str


class Judge:
    """Says of the running trials of a search which are to be stopped now.

    What several of them are compared with is looked up once: at a rung all who have come there.
    """

    def __init__(self, pruning: Pruning, trials: Iterable[Trial], direction: Direction) -> None:
        """`trials` are all of the search, with those that are to be judged."""
        self._pruning = pruning
        self._trials = tuple(trials)
        self._direction = direction
        self._rungs: dict[tuple[int, int], list[float]] = {}
        self._medians: dict[int, list[float]] = {}
        self._complete = [one for one in self._trials if one.outcome is Outcome.COMPLETE]

    def why_stopped(self, trial: Trial) -> Stop | None:
        """Return why a running trial is to be stopped now; None: it goes on.

        Of a value that is no number nothing follows here: that is the trial's own failure.
        """
        if isinstance(self._pruning, Median):
            return self._below_median(self._pruning, trial)
        if isinstance(self._pruning, Asha):
            return self._below_rung(self._pruning, trial, 0)
        if isinstance(self._pruning, Hyperband):
            bracket = self._pruning.bracket_of(trial.number)
            halving = self._pruning.brackets[bracket]
            if isinstance(halving, Asha):
                return self._below_rung(halving, trial, bracket)
        return None

    def _below_rung(self, asha: Asha, trial: Trial, bracket: int) -> Stop | None:
        """Judge at the highest rung that the trial has reached, anew when others come to it.

        While fewer than `reduction` trials have come there the best of them goes on, so that a
        search of a few trials ends with one that was trained to its end.
        """
        reached = [step for step in asha.rungs if step <= trial.step]
        if not reached:
            return None
        first = trial.first_from(reached[-1])
        assert first is not None, "it has come there"
        losses = self._at_rung(bracket, reached[-1])
        count = len(losses)
        room = max(1, count // asha.reduction)
        if bisect_left(losses, self._direction.loss(first.value)) < room:
            return None
        return Stop(
            first.step,
            f"at step {reached[-1]} it had {first.value:.5g}, not among the best {room} of "
            f"{count} trials that have come so far",
        )

    def _at_rung(self, bracket: int, step: int) -> list[float]:
        """Return the losses of all who have come to a rung of a bracket, the best first."""
        known = self._rungs.get((bracket, step))
        if known is None:
            among = self._trials
            if isinstance(rule := self._pruning, Hyperband):
                among = tuple(one for one in among if rule.bracket_of(one.number) == bracket)
            reports = (one.first_from(step) for one in among if one.step >= step)
            loss = self._direction.loss
            known = sorted(loss(report.value) for report in reports if report is not None)
            self._rungs[bracket, step] = known
        return known

    def _below_median(self, rule: Median, trial: Trial) -> Stop | None:
        step, loss = trial.step, self._direction.loss
        if len(self._complete) < rule.startup_trials:
            return None
        if not trial.reports or step < rule.warmup_steps:
            return None
        known = self._medians.get(step)
        if known is None:
            reports = (other.last_until(step) for other in self._complete)
            losses = (loss(report.value) for report in reports if report is not None)
            known = self._medians[step] = [one for one in losses if math.isfinite(one)]
        if not known:
            return None
        limit = median(known)
        best = min(trial.reports, key=lambda report: loss(report.value))
        if loss(best.value) <= limit:
            return None
        shown = limit if self._direction is Direction.MINIMIZE else -limit
        return Stop(
            step,
            f"its best until step {step} was {best.value:.5g}, worse than {shown:.5g}, the median "
            f"of {len(known)} complete trials at that step",
        )


def promotable(
    asha: Asha, trials: Iterable[Trial], direction: Direction
) -> tuple[tuple[int, int], ...]:
    """Return which trials may go on beyond their rung, as numbers and rungs, highest rung first.

    This is what is published: of those that have come to a rung the best `1/reduction`, rounded
    down, less those that have gone on already. A stopped trial that is among them can be resumed
    from its checkpoint, for more is known now than when it was stopped.
    """
    known = list(trials)
    found = []
    for rung, step in reversed(list(enumerate(asha.rungs))):
        ranked = _at_rung(known, step, direction)
        best = ranked[: len(ranked) // asha.reduction]
        further = [trial.number for loss, trial in best if loss < math.inf]
        beyond = {trial.number for trial in known if _has_left(trial, asha, rung)}
        found += [(number, rung) for number in further if number not in beyond]
    return tuple(found)


def _has_left(trial: Trial, asha: Asha, rung: int) -> bool:
    following = (*asha.rungs[rung + 1 :], asha.max_steps)[0]
    return trial.outcome in (Outcome.COMPLETE, Outcome.FAILED) or trial.step >= following


def _at_rung(trials: Iterable[Trial], step: int, direction: Direction) -> list[tuple[float, Trial]]:
    """Return losses and trials, the best first; the value is the first from the rung's step on."""
    reports = ((trial, trial.first_from(step)) for trial in trials)
    losses = [(direction.loss(one.value), trial) for trial, one in reports if one is not None]
    return sorted(losses, key=lambda entry: (entry[0], entry[1].number))
