"""The messages for a job that a SpendLimit holds: what happened, why, and what to do."""

from datetime import datetime

from spotrun.api.field_types.text_values import Time
from spotrun.api.spec.spend_limit import SpendPeriod
from spotrun.money.units import Usd
from spotrun.policies.budget.spend.allotment import Refused, Stopped
from spotrun.policies.budget.spend.facts import USEFUL_SECONDS, JobFacts, Limit
from spotrun.state.snapshot import SpendVerdict

_MINUTES = USEFUL_SECONDS // 60
_WITHIN = {
    SpendPeriod.MONTH: " this month",
    SpendPeriod.WEEK: " this week",
    SpendPeriod.TOTAL: "",
}


def refusal(job: JobFacts, why: Refused, now: datetime) -> SpendVerdict:
    """Return the verdict on a job that may not start."""
    limit = why.limit
    name = f"SpendLimit {limit.name}"
    if why.need is None:
        words = (
            f"{name}: no price is known for a worker of this job, so no part of {limit.usd} can be "
            "reserved for it: set spec.usdPerHour of a CapacityPool that it may use, or add "
            "the instance type to the price table"
        )
        return SpendVerdict(words, _code(limit, "price", now), numbers=_numbers(limit))
    words = (
        f"{name}: {why.left} of {limit.usd} were free{_WITHIN[limit.spec.period]} at "
        f"{Time.of(now)}, and the smallest useful piece of this job needs {why.need} "
        f"({job.least} workers for {_MINUTES} minutes, a checkpoint and their end): "
        f"raise limitUsd{_or_wait(limit, now)}, or ask for fewer or cheaper workers"
    )
    numbers = {**_numbers(limit), "freeUsd": _plain(why.left), "neededUsd": _plain(why.need)}
    return SpendVerdict(words, _code(limit, "start", now), numbers=numbers)


def stop(job: JobFacts, why: Stopped, now: datetime) -> SpendVerdict:
    """Return the verdict on a running job that has to stop."""
    limit = why.limit
    words = (
        f"SpendLimit {limit.name}: {why.left} of {limit.usd} were left"
        f"{_WITHIN[limit.spec.period]} at {Time.of(now)}, and this job was the cheapest to stop "
        f"(an interruption cost {job.interruption_usd}); the operator asks for a checkpoint first. "
        f"To continue, raise limitUsd{_or_wait(limit, now)}"
    )
    numbers = {
        **_numbers(limit),
        "leftUsd": _plain(why.left),
        "interruptionUsd": _plain(job.interruption_usd),
    }
    return SpendVerdict(words, _code(limit, "stop", now), numbers=numbers)


def _or_wait(limit: Limit, now: datetime) -> str:
    end = limit.period(now).end
    return f", or wait until {Time.of(end)}" if end is not None else ""


def _code(limit: Limit, what: str, now: datetime) -> str:
    """Return a code for the causes of a verdict: while it is the same, the message stays."""
    return f"{limit.name}/{what}/{limit.usd.amount}/{limit.period(now).start}"


def _numbers(limit: Limit) -> dict[str, str]:
    return {"limitUsd": _plain(limit.usd)}


def _plain(usd: Usd) -> str:
    return f"{usd.decimal:.2f}"
