"""Whether a trial is stopped early: by its reports at a step, never by its duration."""

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
    """Stop a trial whose best value is worse than the median of complete trials at that step."""

    startup_trials: int = 5  # complete trials that are needed before one is stopped
    warmup_steps: int = 0  # steps of each trial in which it is not stopped


@dataclass(frozen=True, slots=True)
class Asha:
    """Asynchronous successive halving (Li et al. 2020): at each rung the best share continues.

    The first rung is at `grace_steps`, each further one at `reduction` times as many steps.
    """

    grace_steps: int
    max_steps: int
    reduction: int = 3

    def __post_init__(self) -> None:
        if self.reduction < 2:
            raise ValueError(f"a reduction of {self.reduction} stops no trial: give 2 or more")
        if not 0 < self.grace_steps < self.max_steps:
            raise ValueError(
                f"graceSteps is {self.grace_steps} and maxSteps is {self.max_steps}: give a "
                "graceSteps of at least 1 and below maxSteps"
            )

    @property
    def rungs(self) -> tuple[int, ...]:
        """The steps at which trials are compared; not the last step, where all end anyway."""
        steps, step = [], self.grace_steps
        while step < self.max_steps:
            steps.append(step)
            step *= self.reduction
        return tuple(steps)


@dataclass(frozen=True, slots=True)
class Hyperband:
    """Brackets of successive halving (Li et al. 2018) that differ in their first rung.

    The number of a trial determines its bracket, in the published proportions. Trials are compared
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
        """The brackets, from the one that stops trials earliest to the one that stops none."""
        rungs = Asha(self.grace_steps, self.max_steps, self.reduction).rungs
        halving = (Asha(rung, self.max_steps, self.reduction) for rung in rungs)
        return (*halving, NoPruning())

    def bracket_of(self, number: int) -> int:
        """Return the index of a trial's bracket."""
        return _bracket_of(self, number)


@lru_cache(4096)
def _bracket_of(hyperband: Hyperband, number: int) -> int:
    """Return the bracket's index, cached: it is needed for each pair of trials, which are many."""
    most = len(hyperband.brackets) - 1
    # The number of trials that Hyperband begins in a bracket with that many rungs.
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
    """Decides which running trials of a search must be stopped now.

    Values that several trials are compared with are collected once: at a rung, those of all trials
    that have reached it.
    """

    def __init__(self, pruning: Pruning, trials: Iterable[Trial], direction: Direction) -> None:
        """`trials` are all trials of the search, including those that are judged."""
        self._pruning = pruning
        self._trials = tuple(trials)
        self._direction = direction
        self._rungs: dict[tuple[int, int], list[float]] = {}
        self._medians: dict[int, list[float]] = {}
        self._complete = [one for one in self._trials if one.outcome is Outcome.COMPLETE]

    def why_stopped(self, trial: Trial) -> Stop | None:
        """Return why a running trial must be stopped now; None: it continues.

        A value that is not a number stops no trial here: it is a failure of the trial itself.
        """
        if isinstance(self._pruning, Median):
            return self._below_median(self._pruning, trial)
        halving = self._halving(trial)
        return self._below_rung(halving, trial) if halving is not None else None

    def rung_of(self, trial: Trial) -> int:
        """Return the step of the highest rung that a trial has reached; 0 if there is none."""
        halving = self._halving(trial)
        return _rung_of(halving, trial) if halving is not None else 0

    def _halving(self, trial: Trial) -> Asha | None:
        if isinstance(self._pruning, Hyperband):
            halving = self._pruning.brackets[self._pruning.bracket_of(trial.number)]
            return halving if isinstance(halving, Asha) else None
        return self._pruning if isinstance(self._pruning, Asha) else None

    def _below_rung(self, asha: Asha, trial: Trial) -> Stop | None:
        """Judge a trial once at each rung, among the trials that have reached it before.

        If it were judged again whenever another trial arrives, nearly all would be stopped between
        two rungs. The share is rounded up, so the best one continues even among few trials.
        """
        rung = _rung_of(asha, trial)
        if rung <= trial.rung:
            return None
        first = trial.first_from(rung)
        assert first is not None, "the trial has reached this rung"
        losses = self._at_rung(trial, rung)
        count = len(losses)
        room = -(-count // asha.reduction)
        if bisect_left(losses, self._direction.loss(first.value)) < room:
            return None
        return Stop(
            first.step,
            f"at step {rung} it had {first.value:.5g}, not among the best {room} of "
            f"{count} trials that have reached it so far",
        )

    def _at_rung(self, trial: Trial, step: int) -> list[float]:
        """Return the losses of all trials that reached a rung of this bracket, the best first."""
        rule, among = self._pruning, self._trials
        bracket = rule.bracket_of(trial.number) if isinstance(rule, Hyperband) else 0
        known = self._rungs.get((bracket, step))
        if known is None:
            if isinstance(rule, Hyperband):
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


def _rung_of(asha: Asha, trial: Trial) -> int:
    return max((step for step in asha.rungs if step <= trial.step), default=0)
