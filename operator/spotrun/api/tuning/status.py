"""The status of a search: its trials, and the facts about them that must not be lost."""

from typing import Annotated

from pydantic import Field

from spotrun.api.field_types.amounts import Amount, Percent
from spotrun.api.field_types.bounded import Count, Long, LongText, ShortText
from spotrun.api.field_types.text_values import Time
from spotrun.api.meta import Condition
from spotrun.api.model import Model
from spotrun.api.tuning.limits import MOST_TRIALS
from spotrun.api.tuning.parameters import MOST_PARAMETERS
from spotrun.api.tuning.words import TrialPhase, TuningPhase

_Values = Annotated[dict[str, ShortText], Field(max_length=MOST_PARAMETERS)]
_Number = Annotated[str, Field(max_length=40)]
MOST_COURSE_CHARS = 1024


class TrialCounts(Model):
    """The numbers of trials, by phase."""

    summary: ShortText | None = Field(
        None, description='Ended trials out of the maximum, e.g. "12/20".'
    )
    running: Count | None = Field(None, description="Trials that have begun and not ended.")
    succeeded: Count | None = Field(None, description="Complete trials.")
    pruned: Count | None = Field(None, description="Trials stopped because others are better.")
    stopped: Count | None = Field(
        None, description="Trials stopped because the search ended, or their money was used up."
    )
    failed: Count | None = Field(None, description="Trials without a result.")


class BestTrial(Model):
    """The best trial so far."""

    trial: Count = Field(description="The number of the trial, from 0.")
    name: ShortText = Field(description="The name of its TrainingJob.")
    value: _Number = Field(description="The value of the metric.")
    step: Long | None = Field(None, description="The step at which it was reported.")
    parameters: _Values | None = Field(None, description="The values of its parameters, by name.")
    checkpoint: ShortText | None = Field(
        None,
        description="Its newest checkpoint, as namespace/folder/checkpoint below the place for "
        "checkpoints. Another job can name the folder as beginFrom.job. Absent if none was saved.",
    )


class TuningCost(Model):
    """The cost of the search, in USD: the sum of its trials' ledgers."""

    usd: Amount | None = Field(
        None, description="Spent so far by all trials, deleted ones included, in USD."
    )
    reserved_usd: Amount | None = Field(
        None,
        description="Further money that running trials may spend, including their end, in USD.",
    )
    forecast_usd: Amount | None = Field(
        None, description="Expected cost of the search at its end, in USD; absent while unknown."
    )
    trial_usd: Amount | None = Field(
        None,
        description="Expected cost of a whole trial, in USD: the median of the complete trials. "
        "Before there is one: what the running trials expect, then the market's price over "
        "trials.expectedDuration, then the median of the trials that have ended.",
    )
    epoch_usd: Amount | None = Field(
        None,
        description="Cost of an epoch, in USD: the median over the trials' TrainingJobs. Absent "
        "if none of them reports the size of an epoch.",
    )
    saved_by_pruning_usd: Amount | None = Field(
        None,
        description="Money saved by stopping trials early, in USD: their expected cost as whole "
        "trials, minus their actual cost.",
    )
    budget_used_percent: Percent | None = Field(
        None, description='Share of budget.maxCostUsd that is spent, e.g. "43%".'
    )
    as_of: Time | None = Field(None, description="Time up to which these values count.")


class Trial(Model):
    """One trial; an operator that restarts continues from this record."""

    number: Count = Field(description="The number of the trial, from 0; each number is used once.")
    phase: TrialPhase = Field(description=f"Its phase. {TrialPhase.explained()}")
    parameters: _Values = Field(description="The values of its parameters, by name.")
    value: _Number | None = Field(None, description="The newest value of the metric.")
    step: Long | None = Field(None, description="The step at which that value was reported.")
    course: Annotated[str, Field(max_length=MOST_COURSE_CHARS)] | None = Field(
        None,
        description='Values at earlier steps, e.g. "100:2.31 200:2.07", which pruning compares. '
        "If there are many, some in between are left out.",
    )
    rung: Long | None = Field(
        None,
        description="The step of the last rung at which pruning compared the trial and let it "
        "continue.",
    )
    usd: Amount | None = Field(None, description="Spent by the trial so far, in USD.")
    cap_usd: Amount | None = Field(
        None, description="The maximum cost of the trial, in USD; reserved before it began."
    )
    expected_usd: Amount | None = Field(
        None, description="Its expected cost when it began, in USD."
    )
    reason: ShortText | None = Field(
        None, description="The reason for its end, as one CamelCase word."
    )
    message: LongText | None = Field(None, description="The reason for its end, in words.")
    parent: Count | None = Field(
        None, description="The trial of the round before, from whose checkpoint this trial began."
    )
    checkpoint: ShortText | None = Field(None, description="Its newest checkpoint.")
    outcome: TrialPhase | None = Field(
        None, description="While the phase is Stopping: the phase in which the trial will end."
    )
    begun_at: Time | None = Field(None, description="Time at which its values were chosen.")
    ended_at: Time | None = Field(None, description="Time at which the operator noticed its end.")


class TuningJobStatus(Model):
    """The status of the search; only the operator writes here."""

    phase: TuningPhase | None = Field(
        None, description=f"The stage of the search. {TuningPhase.explained()}"
    )
    reason: ShortText | None = Field(
        None, description="The reason for the phase, as one CamelCase word for programs."
    )
    message: LongText | None = Field(
        None, description="The state of the search, in one line that a person can act on."
    )
    observed_generation: Long | None = Field(
        None, description="The metadata.generation for which this status was determined."
    )
    trials: TrialCounts | None = Field(None, description="The numbers of trials, by phase.")
    best: BestTrial | None = Field(None, description="The best trial so far.")
    cost: TuningCost | None = Field(None, description="The cost of the search, in USD.")
    pareto: Annotated[tuple[Count, ...], Field(max_length=64)] | None = Field(
        None,
        description="The trials that no other trial beats in both value and cost, cheapest first.",
    )
    grid_size: Count | None = Field(None, description="The number of points of the grid.")
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] | None = Field(
        None,
        description="Conditions of the search, for programs and `kubectl wait`.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )
    history: Annotated[tuple[Trial, ...], Field(max_length=MOST_TRIALS)] | None = Field(
        None,
        description="All trials in the order of their numbers, with their values and results.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["number"],
        },
    )
    started_at: Time | None = Field(
        None, description="Time at which the operator first saw the search."
    )
    ended_at: Time | None = Field(None, description="Time at which its last trial was settled.")
