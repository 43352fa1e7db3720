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
"""The maximum that the status has room for; less with many long parameters (`most_trials`)."""


class Keep(Choice):
    """The TrainingJobs of trials that stay after their end."""

    ALL = "All", "all are kept until the TuningJob is deleted"
    BEST = (
        "Best",
        "only that of the best trial is kept; status has the cost and values of the others",
    )


class OnExceeded(Choice):
    """The reaction to a budget without room for another trial."""

    STOP_NEW_TRIALS = "StopNewTrials", "running trials continue with the money reserved for them"
    STOP_ALL = "StopAll", "running trials are stopped as well"


class Trials(Model):
    """The number of trials."""

    max: Annotated[int, Field(ge=1, le=MOST_TRIALS)] = Field(
        description="The maximum number of trials."
    )
    parallel: Annotated[int, Field(ge=1, le=100)] = Field(
        1,
        description="Default 1. The maximum number of trials at once. The more trials run beside "
        "it, the less a Bayesian search learns from each: above 4 it is hardly better than random.",
    )
    max_failed: Count = Field(
        3,
        description="Default 3. The number of failed trials after which the search still "
        "continues.",
    )
    expected_duration: PositiveDuration | None = Field(
        None,
        description="Expected duration of a trial, e.g. 20m. With the market's price it gives the "
        "expected cost of the first trials; that of later ones is predicted from complete trials.",
    )
    keep: Keep = Field(
        Keep.ALL, description=f"Default All: which TrainingJobs are kept. {Keep.explained()}"
    )

    rules = (
        Rule(
            cel="self.parallel <= self.max",
            message="trials.parallel must not be above trials.max",
            holds=lambda t: t.parallel <= t.max,
        ),
    )


class StopWhen(Model):
    """The condition under which the search ends because it no longer improves."""

    no_better_trials: Annotated[int, Field(ge=1, le=MOST_TRIALS)] = Field(
        description="No more trials begin once this number of trials in a row have ended without "
        "a better value than the best complete one before them. Pruned and stopped trials count "
        "as not better; failed ones do not count. Running trials continue; if one of them is "
        "better, the search continues as well."
    )
    min_improvement: Real = Field(
        Real("0"),
        description='Default "0". A value counts as better only if the difference is more than '
        "this, in the unit of the metric.",
    )

    rules = (IMPROVEMENT_IS_POSITIVE,)


class TuningBudget(Model):
    """The maximum cost and duration of the search."""

    max_cost_usd: PositiveAmount | None = Field(
        None,
        description="The maximum cost of all trials together, in USD. Each trial gets a part of "
        "it as its own budget, which includes its last checkpoint and its end, so that the sum is "
        "kept even while no operator runs. Default: no limit.",
    )
    max_duration: PositiveDuration | None = Field(
        None, description="The time after which no more trials begin, e.g. 6h. Default: no limit."
    )
    on_exceeded: OnExceeded = Field(
        OnExceeded.STOP_NEW_TRIALS,
        description="Default StopNewTrials: what happens when the budget has no room for another "
        f"trial, or the time is up. {OnExceeded.explained()}",
    )

    rules = (
        Rule(
            cel="has(self.maxCostUsd) || has(self.maxDuration)",
            message="budget must limit something: give maxCostUsd, maxDuration or both",
            holds=lambda b: b.max_cost_usd is not None or b.max_duration is not None,
        ),
    )
