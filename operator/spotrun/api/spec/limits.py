"""The limits of a job: deadline, budget, idleness, failures, and how long it is kept."""

from typing import Annotated

from pydantic import Field
from typing_extensions import override

from spotrun.api.field_types.amounts import PositiveAmount
from spotrun.api.field_types.bounded import PercentOf
from spotrun.api.field_types.text_values import AutoOrDuration, Duration, PositiveDuration, Time
from spotrun.api.model import Model, Rule
from spotrun.api.names import Choice


class OnMissed(Choice):
    """The reaction to a deadline that cannot be met."""

    AUTO = (
        "Auto",
        "use on-demand while the projected miss is below 10 percent, else act as Cheapest",
    )
    CHEAPEST = "Cheapest", "continue in the cheapest way"
    ON_DEMAND = "OnDemand", "continue with on-demand capacity, to be as little late as possible"
    FAIL = "Fail", "end the job when the deadline has passed"


class Deadline(Model):
    """The time by which the job should be finished."""

    finish_within: PositiveDuration | None = Field(
        None,
        description="Time from the job's creation to its end, including suspended time, e.g. 60h. "
        "Give either finishWithin or finishBefore.",
    )
    finish_before: Time | None = Field(
        None,
        description="Time by which the job should be finished, e.g. 2026-03-01T08:00:00Z. Give "
        "either finishBefore or finishWithin.",
    )
    on_missed: OnMissed = Field(
        OnMissed.AUTO,
        description="Default Auto: what happens if the deadline cannot be met. "
        f"{OnMissed.explained()}",
    )

    rules = (
        Rule(
            cel="has(self.finishWithin) != has(self.finishBefore)",
            message="deadline needs exactly one of finishWithin and finishBefore",
            holds=lambda d: (d.finish_within is None) != (d.finish_before is None),
        ),
    )


class OnExceeded(Choice):
    """The reaction to a used-up budget."""

    SUSPEND = "Suspend", "save a checkpoint, then hold the job until the budget is raised"
    FAIL = "Fail", "save a checkpoint if there is a place for one, then end the job"
    WARN = "Warn", "report it, and continue"


class Unpriced(Choice):
    """The reaction to capacity of unknown price."""

    REFUSE = "Refuse", "do not use such capacity, because the budget could not be kept"
    ALLOW = "Allow", "use it, and count its cost as zero"


class Budget(Model):
    """The maximum cost of the job."""

    max_cost_usd: PositiveAmount | None = Field(
        None,
        description="The maximum total cost of the job, in USD, including the last checkpoint. "
        "Default: no limit.",
    )
    max_usd_per_hour: PositiveAmount | None = Field(
        None,
        description="The maximum cost of the job at any time, in USD per hour. It limits the "
        "number of workers, and how many of them are on demand. Default: no limit.",
    )
    warn_at_percent: Annotated[tuple[PercentOf, ...], Field(max_length=10)] = Field(
        (50, 80),
        description="Default [50, 80]. Shares of maxCostUsd, in percent and ascending, at which "
        "an event reports what was spent.",
    )
    on_exceeded: OnExceeded = Field(
        OnExceeded.SUSPEND,
        description="Default Suspend: what happens when maxCostUsd is used up. "
        f"{OnExceeded.explained()} Suspend needs a checkpoint that outlives the pods.",
    )
    unpriced: Unpriced = Field(
        Unpriced.REFUSE,
        description="Default Refuse: what happens with capacity of unknown price. "
        f"{Unpriced.explained()}",
    )

    rules = (
        Rule(
            cel="has(self.maxCostUsd) || has(self.maxUsdPerHour)",
            message="budget must limit something: give maxCostUsd, maxUsdPerHour or both",
            holds=lambda b: b.max_cost_usd is not None or b.max_usd_per_hour is not None,
        ),
        Rule(
            cel="self.warnAtPercent.isSorted()"
            " && self.warnAtPercent.all(a, self.warnAtPercent.exists_one(b, a == b))",
            message="warnAtPercent must ascend, each level once",
            holds=lambda b: list(b.warn_at_percent) == sorted(set(b.warn_at_percent)),
        ),
    )


class IdleDuration(Duration):
    """A duration, of at least 15 minutes, after which workers are called idle."""

    __slots__ = ()
    least_seconds = 900
    """Longer than all workers usually do nothing while they load, compile or evaluate."""
    further_cel = f"duration(self) >= duration('{least_seconds}s')"
    hint = (
        'must be a duration of at least 15 minutes, after which workers are called idle, like "2h"'
    )

    @override
    def holds(self) -> bool:
        return self.exact_seconds >= self.least_seconds


class Idle(Model):
    """The reaction to workers that are paid for but do almost nothing."""

    suspend_after: IdleDuration = Field(
        description="Time for which all workers may use almost nothing, or make no step, e.g. 2h; "
        "at least 15m. Then a checkpoint is saved and the job is suspended until somebody sets "
        "suspend to true and back to false."
    )


class Failures(Model):
    """The reaction to failures of the training; interruptions of spot capacity never count."""

    max_restarts: Annotated[int, Field(ge=0, le=10_000)] = Field(
        3,
        description="Default 3. The number of failures after which the training is restarted; the "
        "next failure ends the job. The count is reset after an hour of progress.",
    )
    fatal_exit_codes: (
        Annotated[
            tuple[Annotated[int, Field(ge=1, le=255)], ...], Field(min_length=1, max_length=64)
        ]
        | None
    ) = Field(
        None,
        description="Exit codes of the training script after which there is no restart. Default: "
        "none.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    hang_after: AutoOrDuration = Field(
        AutoOrDuration("Auto"),
        description="Default Auto: 20 times the median step, and at least 10 minutes; at least an "
        "hour for a script that does not train through Run. Or a duration, e.g. 30m. A step that "
        "takes longer counts as a failure.",
    )

    rules = (
        Rule(
            cel="!has(self.fatalExitCodes)"
            " || self.fatalExitCodes.all(a, self.fatalExitCodes.exists_one(b, a == b))",
            message="fatalExitCodes must name each code once",
            holds=lambda f: len(set(f.fatal_exit_codes or ())) == len(f.fatal_exit_codes or ()),
        ),
    )


class Finished(Model):
    """The clean-up of the job after its end."""

    delete_after: Duration | None = Field(
        None,
        description="Time from the job's end until the TrainingJob is deleted, e.g. 24h. Default: "
        "it is kept.",
    )
    report: bool = Field(
        False,
        description="Default false. True keeps a report of the job in a ConfigMap of its "
        "namespace once its workers are gone and its cost is final. The ConfigMap outlives the "
        "job, and `kubectl tjob report NAME` reads it. deleteAfter waits until the report is kept.",
    )
