"""Whether a trial is stopped early: by its reports at a step, never by the time it took."""

import math
from collections.abc import Iterable, Sequence
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


def stops(
    pruning: Pruning, trial: Trial, others: Sequence[Trial], direction: Direction
) -> Stop | None:
    """Return why a running trial is to be stopped now; None: it goes on.

    Of a value that is no number nothing follows here: that is the trial's own failure.
    """
    others = [other for other in others if other.number != trial.number]
    if isinstance(pruning, Median):
        return _below_median(pruning, trial, others, direction)
    if isinstance(pruning, Hyperband):
        place = pruning.bracket_of(trial.number)
        others = [other for other in others if pruning.bracket_of(other.number) == place]
        pruning = pruning.brackets[place]
    if isinstance(pruning, Asha):
        return _below_rung(pruning, trial, others, direction)
    return None


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


def _below_rung(
    asha: Asha, trial: Trial, others: Sequence[Trial], direction: Direction
) -> Stop | None:
    """Judge at the highest rung that the trial has reached, anew when others come to it.

    While fewer than `reduction` trials have come there the best of them goes on, so that a search
    of a few trials ends with one that was trained to its end.
    """
    reached = [step for step in asha.rungs if trial.first_from(step) is not None]
    if not reached:
        return None
    first = trial.first_from(reached[-1])
    assert first is not None
    there = [one for other in others if (one := other.first_from(reached[-1])) is not None]
    count = len(there) + 1
    room = max(1, count // asha.reduction)
    own = direction.loss(first.value)
    if sum(direction.loss(one.value) < own for one in there) < room:
        return None
    return Stop(
        first.step,
        f"at step {reached[-1]} it had {first.value:.5g}, not among the best {room} of "
        f"{count} trials that have come so far",
    )


def _below_median(
    rule: Median, trial: Trial, others: Sequence[Trial], direction: Direction
) -> Stop | None:
    complete = [other for other in others if other.outcome is Outcome.COMPLETE]
    step = trial.step
    if len(complete) < rule.startup_trials or not trial.reports or step < rule.warmup_steps:
        return None
    reports = [other.last_until(step) for other in complete]
    losses = [direction.loss(report.value) for report in reports if report is not None]
    known = [loss for loss in losses if math.isfinite(loss)]
    if not known:
        return None
    limit = median(known)
    best = min(trial.reports, key=lambda report: direction.loss(report.value))
    if direction.loss(best.value) <= limit:
        return None
    shown = limit if direction is Direction.MINIMIZE else -limit
    return Stop(
        step,
        f"its best until step {step} was {best.value:.5g}, worse than {shown:.5g}, the median of "
        f"{len(known)} complete trials at that step",
    )
