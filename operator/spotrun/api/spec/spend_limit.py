"""The SpendLimit: what the jobs of a namespace, or those with some labels, may spend together."""

from typing import Literal

from pydantic import Field

from spotrun.api.field_types.amounts import PositiveAmount
from spotrun.api.field_types.bounded import PercentOf
from spotrun.api.meta import ObjectMeta
from spotrun.api.model import Model, Rule
from spotrun.api.names import LABEL_COST_CENTER, LABEL_PROJECT, LABEL_TEAM, Choice
from spotrun.api.spec.selector import Labels
from spotrun.api.status_parts.spend_limit import SpendLimitStatus

COST_LABELS = (str(LABEL_TEAM), str(LABEL_COST_CENTER), str(LABEL_PROJECT))


class SpendPeriod(Choice):
    """The time over which spending is added up."""

    MONTH = "Month", "a calendar month, in UTC"
    WEEK = "Week", "a week that begins on Monday, in UTC"
    TOTAL = "Total", "all time, without periods"


class OnLimit(Choice):
    """The reaction to a limit that is used up."""

    WARN = "Warn", "report it, and continue"
    HOLD = "Hold", "do not start a job for which too little is left; running jobs continue"
    SUSPEND = (
        "Suspend",
        "as Hold, and suspend running jobs, each after a checkpoint, so that the limit is kept",
    )


class SpendSelector(Model):
    """The jobs to which a limit applies."""

    match_labels: Labels = Field(
        description="Labels a TrainingJob must have, each with exactly this value: team, "
        "cost-center or project."
    )

    rules = (
        Rule(
            cel=f"self.matchLabels.size() > 0 && self.matchLabels.all(k, k in {list(COST_LABELS)})",
            message="selector.matchLabels takes one or more of the labels by which costs are "
            "grouped: team, cost-center and project",
            holds=lambda s: bool(s.match_labels) and all(k in COST_LABELS for k in s.match_labels),
        ),
    )


class SpendLimitSpec(Model):
    """The wanted limit."""

    limit_usd: PositiveAmount = Field(
        description="The maximum that these jobs may spend in a period, in USD: nodes and "
        "checkpoint storage, as in status.cost of each job."
    )
    period: SpendPeriod = Field(
        SpendPeriod.MONTH,
        description="Default Month: the time over which spending is added up. "
        f"{SpendPeriod.explained()}",
    )
    selector: SpendSelector | None = Field(
        None,
        description="The jobs to which the limit applies. Default: all TrainingJobs of the "
        "namespace.",
    )
    on_exceeded: OnLimit = Field(
        OnLimit.HOLD,
        description="Default Hold: what happens when the limit is, or is about to be, used up. "
        f"{OnLimit.explained()}",
    )
    warn_at_percent: PercentOf = Field(
        80,
        description="Default 80. The share of limitUsd, in percent, from which the condition "
        "BelowWarning is False and an alert of the chart fires.",
    )


class SpendLimit(Model):
    """A limit on what jobs of a namespace spend together in a month, a week or in total."""

    api_version: Literal["spotrun.dev/v1alpha1"] = Field(description="The version of the API.")
    kind: Literal["SpendLimit"] = Field(description="The kind of object.")
    metadata: ObjectMeta = Field(description="Name, namespace, labels and annotations.")
    spec: SpendLimitSpec = Field(description="The wanted limit.")
    status: SpendLimitStatus | None = Field(
        None, description="The observed state of the limit; only the operator writes here."
    )

    rules = (
        Rule(
            cel="size(self.metadata.name) <= 63",
            message="metadata.name must be at most 63 characters, because messages of jobs "
            "contain it",
            holds=lambda one: len(one.metadata.name or "") <= 63,
        ),
        Rule(
            cel="self.spec.period == oldSelf.spec.period",
            message="spec.period cannot change, because the spending of deleted jobs is known for "
            "one period only: create another SpendLimit",
            holds=None,
        ),
    )
