"""SpendLimits and jobs made by hand, as the decision for a namespace sees them."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from spotrun.api.names import FINALIZER_SPEND
from spotrun.api.spec.spend_limit import SpendLimitSpec
from spotrun.money.units import Usd, UsdPerHour
from spotrun.policies.budget.spend.facts import JobFacts, Limit
from tests.support.jobs.builders import a_spec, ago

HELD = (str(FINALIZER_SPEND),)


def usd(amount: str) -> Usd:
    return Usd(Decimal(amount))


def a_limit(limit_usd: str = "100", name: str = "team", **spec: Any) -> Limit:
    read = SpendLimitSpec.model_validate({"limitUsd": limit_usd, **spec}, strict=False)
    return Limit(name, read, version="1", generation=1)


def a_job(
    name: str = "a",
    *,
    workers: int = 0,
    rate: str = "0",
    spent: str = "0",
    price: str = "0",
    worker_rate: str | None = "10",
    age: float = 3600,
    spec: dict[str, Any] | None = None,
    **facts: Any,
) -> JobFacts:
    """A job of one worker at $10 an hour, whose end is reckoned at a few minutes."""
    numbers = spec or {}
    job = JobFacts(
        name=name,
        uid=f"uid-{name}",
        version="1",
        created_at=ago(age),
        spec=a_spec(numbers.pop("workers", 1), **numbers),
        usd=usd(spent),
        rate=UsdPerHour(Decimal(rate)),
        workers=workers,
        worker_rate=None if worker_rate is None else UsdPerHour(Decimal(worker_rate)),
        interruption_usd=usd(price),
        finalizers=HELD,
    )
    return replace(job, **facts)


def running(name: str, **facts: Any) -> JobFacts:
    return a_job(name, workers=1, rate="10", **facts)


def asking(name: str, **facts: Any) -> JobFacts:
    return a_job(name, asks=True, **facts)
