"""The status of a search: its trials, and what must not be forgotten of them."""

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
    """The number of trials, by what became of them."""

    summary: ShortText | None = Field(
        None, description='Trials that have ended of those there may be, e.g. "12/20".'
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

    trial: Count = Field(description="The number of the trial, from 0 on.")
    name: ShortText = Field(description="The name of its TrainingJob.")
    value: _Number = Field(description="The value of the metric.")
    step: Long | None = Field(None, description="The step at which it was reported.")
    parameters: _Values | None = Field(None, description="Its values, by the parameters' names.")
    checkpoint: ShortText | None = Field(
        None,
        description="Its newest checkpoint, as namespace/folder/checkpoint below the place for "
        "checkpoints; another job can name the folder as beginFrom.job. It is absent where none "
        "was saved.",
    )


class TuningCost(Model):
    """The cost of the search, in USD: the sum of its trials' ledgers."""

    usd: Amount | None = Field(
        None, description="Spent so far by all trials, deleted ones included, in USD."
    )
    reserved_usd: Amount | None = Field(
        None,
        description="Further money that trials which run may spend, their end included, in USD.",
    )
    forecast_usd: Amount | None = Field(
        None, description="Expected cost of the search at its end, in USD; absent while unknown."
    )
    trial_usd: Amount | None = Field(
        None,
        description="Expected cost of a whole trial, in USD: the median of the complete ones, or "
        "before any the market's price over trials.expectedDuration.",
    )
    epoch_usd: Amount | None = Field(
        None,
        description="Cost of an epoch, in USD: the median of what the trials' TrainingJobs say. "
        "Absent where none says how large an epoch is.",
    )
    saved_by_pruning_usd: Amount | None = Field(
        None,
        description="Money that stopping trials early has saved, in USD: what they would have cost "
        "as whole trials, minus what they cost.",
    )
    budget_used_percent: Percent | None = Field(
        None, description='Share of budget.maxCostUsd that is spent, e.g. "43%".'
    )
    as_of: Time | None = Field(None, description="The moment up to which this counts.")


class Trial(Model):
    """One trial; this is what an operator that starts anew goes on from."""

    number: Count = Field(description="The number of the trial, from 0 on; given out once.")
    phase: TrialPhase = Field(description=f"Its stage. {TrialPhase.explained()}")
    parameters: _Values = Field(description="Its values, by the parameters' names.")
    value: _Number | None = Field(None, description="The newest value of the metric.")
    step: Long | None = Field(None, description="The step at which that was reported.")
    course: Annotated[str, Field(max_length=MOST_COURSE_CHARS)] | None = Field(
        None,
        description='Values at earlier steps, e.g. "100:2.31 200:2.07": pruning compares them. '
        "Where there are many, some in between are left out.",
    )
    rung: Long | None = Field(
        None,
        description="The step of the last rung at which pruning compared the trial and let it "
        "continue.",
    )
    usd: Amount | None = Field(None, description="Spent by it so far, in USD.")
    cap_usd: Amount | None = Field(
        None, description="The most that it may cost, in USD: reserved before it began."
    )
    expected_usd: Amount | None = Field(
        None, description="Its expected cost when it was begun, in USD."
    )
    reason: ShortText | None = Field(
        None, description="The cause of its end, in one CamelCase word."
    )
    message: LongText | None = Field(None, description="The same in words.")
    parent: Count | None = Field(
        None, description="The trial of the round before from whose checkpoint it began."
    )
    checkpoint: ShortText | None = Field(None, description="Its newest checkpoint.")
    outcome: TrialPhase | None = Field(
        None, description="While it is Stopping: the stage that it will end in."
    )
    begun_at: Time | None = Field(None, description="Time at which its values were chosen.")
    ended_at: Time | None = Field(None, description="Time at which its end was noticed.")


class TuningJobStatus(Model):
    """The status of the search; only the operator writes here."""

    phase: TuningPhase | None = Field(
        None, description=f"The stage of the search. {TuningPhase.explained()}"
    )
    reason: ShortText | None = Field(
        None, description="The cause of the phase, in one CamelCase word for machines."
    )
    message: LongText | None = Field(
        None, description="The state of the search in one line that a person can act on."
    )
    observed_generation: Long | None = Field(
        None, description="The metadata.generation that this status was concluded from."
    )
    trials: TrialCounts | None = Field(None, description="The number of trials, by their stage.")
    best: BestTrial | None = Field(None, description="The best trial so far.")
    cost: TuningCost | None = Field(None, description="The cost of the search, in USD.")
    pareto: Annotated[tuple[Count, ...], Field(max_length=64)] | None = Field(
        None,
        description="The trials that no other one beats in both value and cost, cheapest first.",
    )
    grid_size: Count | None = Field(None, description="The number of points of a grid.")
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] | None = Field(
        None,
        description="Aspects of the search for machines and `kubectl wait`.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )
    history: Annotated[tuple[Trial, ...], Field(max_length=MOST_TRIALS)] | None = Field(
        None,
        description="All trials in the order of their numbers: what each was tried with, and what "
        "became of it.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["number"],
        },
    )
    started_at: Time | None = Field(None, description="Time at which the search was first seen.")
    ended_at: Time | None = Field(None, description="Time at which its last trial was settled.")
