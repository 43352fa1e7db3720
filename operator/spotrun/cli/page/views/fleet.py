"""All jobs and pools as rows, and what has changed since they were sent. Pure.

Times are seconds since 1970: the page computes ages from them by its own clock.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from spotrun.api.names import Phase
from spotrun.cli.jobs.advice import severity, troubles
from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.pool_model import Pool
from spotrun.cli.text.words import amount, moment

_LIFETIME = re.compile(r"\S+ ([\d.]+)/([\d.]+)")


class JobRow(msgspec.Struct, frozen=True, rename="camel"):
    """A job in the list."""

    key: str  # namespace/name
    namespace: str
    name: str
    team: str
    phase: str
    severity: int  # the smallest needs attention first
    workers: str
    running: int
    spot: int
    step: int | None
    total_steps: int | None
    eta: float | None
    usd: float | None
    usd_per_hour: float
    saved_usd: float | None
    budget_usd: float | None
    losses: int
    goodput: str | None
    created: float | None
    why: str


class PoolRow(msgspec.Struct, frozen=True, rename="camel"):
    """A CapacityPool in the list."""

    name: str
    capacity: str
    types: str
    zones: str
    nodes: int
    workers: int | None
    usd_per_hour: float | None
    on_demand_usd_per_hour: float | None
    source: str
    is_stale: bool
    available: str
    losses_a_day: int
    taken: str  # hazard: how many of the nodes that came were taken away, by their lifetimes


class Fleet(msgspec.Struct, frozen=True):
    """All that the list shows."""

    jobs: Mapping[str, JobRow] = {}
    pools: Mapping[str, PoolRow] = {}
    notes: tuple[str, ...] = ()
    limits: Mapping[str, msgspec.Struct] = {}


def job_row(job: Job) -> JobRow:
    """Return the row of a job."""
    meta, status = job.metadata, job.status
    found = troubles(job)
    is_quiet = status.phase in (Phase.RUNNING, Phase.SUCCEEDED)
    said = f"{status.reason}: {status.message}" if status.message and not is_quiet else ""
    return JobRow(
        key=f"{meta.namespace}/{meta.name}",
        namespace=meta.namespace,
        name=meta.name,
        team=meta.labels.get("team", ""),
        phase=status.phase or "NotSeen",
        severity=severity(job),
        workers=status.workers.summary or "-",
        running=status.workers.running or 0,
        spot=status.workers.spot or 0,
        step=status.progress.step,
        total_steps=status.progress.total_steps,
        eta=epoch(status.progress.eta),
        usd=number(status.cost.usd),
        usd_per_hour=number(status.cost.usd_per_hour) or 0.0,
        saved_usd=number(status.cost.saved_usd),
        budget_usd=number(job.spec.budget.max_cost_usd if job.spec.budget else None),
        losses=status.interruptions.count,
        goodput=status.cost.goodput,
        created=epoch(meta.creation_timestamp),
        why=f"{found[0].title}: {found[0].message}" if found else said,
    )


def pool_row(pool: Pool) -> PoolRow:
    """Return the row of a pool."""
    spec, status = pool.spec, pool.status
    return PoolRow(
        name=pool.metadata.name,
        capacity=spec.capacity,
        types=status.types or ", ".join(spec.instance_types) or "any",
        zones=status.zones or ", ".join(spec.zones) or "any",
        nodes=status.nodes,
        workers=status.workers,
        usd_per_hour=number(status.price.usd_per_hour),
        on_demand_usd_per_hour=number(status.price.on_demand_usd_per_hour),
        source=status.price.source or "",
        is_stale=status.price.stale,
        available=status.available,
        losses_a_day=status.interruptions_24h,
        taken=taken_of(pool.status.lifetimes),
    )


def difference(sent: Fleet, now: Fleet) -> dict[str, Any]:
    """Return what must be sent to a browser that has `sent` to give it `now`; empty if equal."""
    found: dict[str, Any] = {}
    for name, before, after in (
        ("jobs", sent.jobs, now.jobs),
        ("pools", sent.pools, now.pools),
        ("limits", sent.limits, now.limits),
    ):
        if changed := [row for key, row in after.items() if before.get(key) != row]:
            found[name] = changed
        if gone := sorted(before.keys() - after.keys()):
            found[f"{name}Gone"] = gone
    if sent.notes != now.notes:
        found["notes"] = now.notes
    return found


def number(text: str | None) -> float | None:
    """Return an amount of the API for a picture or a column: to be shown, not to be added up."""
    return None if text is None else float(amount(text))


def epoch(text: str | None) -> float | None:
    """Return a time of the API as seconds since 1970."""
    found = moment(text)
    return None if found is None else found.timestamp()


def taken_of(lifetimes: str) -> str:
    """Return how many nodes were taken away, of those that came: `4 of 12`; empty if unknown.

    Lifetimes are a life table: `0m 3/12, 15m 1/9` is 3 taken of 12 before an age of 15 minutes.
    """
    rows = [(amount(taken), amount(reached)) for taken, reached in _LIFETIME.findall(lifetimes)]
    if not rows:
        return ""
    return f"{sum(taken for taken, _ in rows):.3g} of {rows[0][1]:.3g}"
