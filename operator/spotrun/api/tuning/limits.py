"""The limits of a search: trials, money, time. They may change while it runs."""

from typing import Annotated

from pydantic import Field

from spotrun.api.field_types.amounts import PositiveAmount
from spotrun.api.field_types.bounded import Count
from spotrun.api.field_types.real import Real
from spotrun.api.field_types.text_values import PositiveDuration
from spotrun.api.model import Model, Rule
from spotrun.api.names import Choice
from spotrun.api.spec.stop_when import IMPROVEMENT_IS_POSITIVE

MOST_TRIALS = 1000
"""The status has room for this many, and for fewer with many long parameters (`most_trials`)."""


class Keep(Choice):
    """The TrainingJobs of trials that stay after their end."""

    ALL = "All", "each stays, to be looked at, until the TuningJob is deleted"
    BEST = "Best", "only that of the best trial stays; the others' cost and values are in status"


class OnExceeded(Choice):
    """The reaction to a budget without room for another trial."""

    STOP_NEW_TRIALS = "StopNewTrials", "those that run go on with the money reserved for them"
    STOP_ALL = "StopAll", "those that run are stopped as well"


class Trials(Model):
    """The number of trials."""

    max: Annotated[int, Field(ge=1, le=MOST_TRIALS)] = Field(
        description="The most trials that are begun."
    )
    parallel: Annotated[int, Field(ge=1, le=100)] = Field(
        1,
        description="Default 1. The most trials at once. A Bayesian search learns less from each "
        "the more run beside it: above 4 it is hardly better than random.",
    )
    max_failed: Count = Field(
        3, description="Default 3. The number of failed trials that the search outlives."
    )
    expected_duration: PositiveDuration | None = Field(
        None,
        description="The time that a trial should take, e.g. 20m. With the market's price it says "
        "what the first trials will cost; later ones are predicted from those that are complete.",
    )
    keep: Keep = Field(
        Keep.ALL, description=f"Default All: the TrainingJobs to keep. {Keep.explained()}"
    )

    rules = (
        Rule(
            cel="self.parallel <= self.max",
            message="trials.parallel must not be above trials.max",
            holds=lambda t: t.parallel <= t.max,
        ),
    )


class StopWhen(Model):
    """The point from which more trials are not worth their money."""

    no_better_trials: Annotated[int, Field(ge=1, le=MOST_TRIALS)] = Field(
        description="No more trials begin once so many in a row have ended without a better value "
        "than the best complete one before them. A pruned or stopped trial is one without; failed "
        "ones are not counted. Trials that run go on; if one of them is better, so does the search."
    )
    min_improvement: Real = Field(
        Real("0"),
        description='Default "0". A value is better only by more than this, in the metric\'s own '
        "unit.",
    )

    rules = (IMPROVEMENT_IS_POSITIVE,)


class TuningBudget(Model):
    """The money and the time that the search may take."""

    max_cost_usd: PositiveAmount | None = Field(
        None,
        description="The most that all trials may cost together, in USD. Each trial gets a part of "
        "it as a budget of its own, its last checkpoint and its end included, so that the sum is "
        "kept even while no operator runs. Default: no limit.",
    )
    max_duration: PositiveDuration | None = Field(
        None, description="The time after which no more trials begin, e.g. 6h. Default: no limit."
    )
    on_exceeded: OnExceeded = Field(
        OnExceeded.STOP_NEW_TRIALS,
        description="Default StopNewTrials: the reaction when the budget has no room for another "
        f"trial, or the time is up. {OnExceeded.explained()}",
    )

    rules = (
        Rule(
            cel="has(self.maxCostUsd) || has(self.maxDuration)",
            message="budget must limit something: give maxCostUsd, maxDuration or both",
            holds=lambda b: b.max_cost_usd is not None or b.max_duration is not None,
        ),
    )
