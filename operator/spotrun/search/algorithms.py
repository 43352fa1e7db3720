"""The ways to search, with their settings; docs/search-algorithms.md says when each is right."""

from dataclasses import dataclass
from enum import StrEnum


class Sampler(StrEnum):
    """The model of a Bayesian search; both are Optuna's."""

    TPE = "TPE"
    GP = "GP"  # it needs torch and scipy in the operator's image


@dataclass(frozen=True, slots=True)
class Grid:
    """Every combination of choices, once."""


@dataclass(frozen=True, slots=True)
class Random:
    """Independent draws."""

    seed: int = 0


@dataclass(frozen=True, slots=True)
class Sobol:
    """A sequence that covers the space evenly, after any number of points."""

    seed: int = 0


@dataclass(frozen=True, slots=True)
class Bayesian:
    """A model of the trials that have ended proposes the next values."""

    seed: int = 0
    sampler: Sampler = Sampler.TPE
    startup_trials: int = 10  # from a Sobol sequence, before the model is used
    per_dollar: bool = False  # rank by expected improvement per expected dollar

    def __post_init__(self) -> None:
        if self.per_dollar and self.sampler is not Sampler.TPE:
            raise ValueError(
                "perDollar ranks what TPE proposes: choose the sampler TPE, or leave perDollar out"
            )


@dataclass(frozen=True, slots=True)
class Population:
    """Population-based training: the worst continue from checkpoints of the best, with new values.

    Trial `number` is member `number % size` in the round `number // size`. Each round of a member
    is a separate trial, which begins from its parent's checkpoint.
    """

    size: int
    rounds: int
    seed: int = 0
    replaced: float = 0.25  # share of members that continue from the best, an equal share
    resampled: float = 0.25  # the probability that a value of theirs is drawn again

    def __post_init__(self) -> None:
        if self.size < 2 or self.rounds < 1:
            raise ValueError(
                f"a population of {self.size} in {self.rounds} rounds learns nothing: give a size "
                "of 2 or more, and at least one round"
            )
        if not 0 < self.replaced <= 0.5:
            raise ValueError(
                f"a population replaces a share of {self.replaced:g}: give more than 0 and at "
                "most 0.5, because the same share counts as the best"
            )


Algorithm = Grid | Random | Sobol | Bayesian | Population
