"""The list of jobs: a row for each, and the sum."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal

from spotrun.api.names import Phase
from spotrun.cli.jobs.advice import severity, troubles
from spotrun.cli.jobs.model import Job
from spotrun.cli.text.look import Look
from spotrun.cli.text.table import Cell, Column, table
from spotrun.cli.text.words import (
    age,
    amount,
    moment,
    plain_usd,
    seconds_since,
    span,
    things,
    usd,
)

ORDERS = ("trouble", "dollars", "rate", "age", "name")
COLOURS: dict[str, str] = {
    Phase.RUNNING: "green",
    Phase.SUCCEEDED: "dim",
    Phase.FAILED: "red",
    Phase.RECOVERING: "yellow",
    Phase.PENDING: "yellow",
    Phase.STARTING: "blue",
    Phase.SUSPENDED: "dim",
}
_COLUMNS = (
    Column("NAME", is_kept=True),
    Column("PHASE", is_kept=True),
    Column("WORKERS", is_number=True),
    Column("SPOT", is_number=True),
    Column("DONE", is_number=True),
    Column("LEFT", is_number=True),
    Column("COST($)", is_number=True),
    Column("$/H", is_number=True),
    Column("SAVED($)", is_number=True),
    Column("BUDGET", is_number=True),
    Column("AGE", is_number=True),
    Column("WHY"),
)


def listing(jobs: Sequence[Job], order: str, look: Look, *, is_everywhere: bool) -> list[str]:
    """Return the lines of the list; the sums are at its end."""
    ordered = in_order(jobs, order)
    rows = [_row(job, look) for job in ordered]
    if not is_everywhere:
        return [*table(_COLUMNS, rows, look), *_sums(jobs)]
    columns = (Column("NAMESPACE", is_kept=True), *_COLUMNS)
    named = [(job.metadata.namespace, *row) for job, row in zip(ordered, rows, strict=True)]
    return [*table(columns, named, look), *_sums(jobs)]


def in_order(jobs: Sequence[Job], order: str) -> list[Job]:
    """Sort jobs: the most expensive, or those that need attention, first."""
    by_name = sorted(jobs, key=lambda job: (job.metadata.namespace, job.metadata.name))
    keys: dict[str, Callable[[Job], tuple[float | Decimal, ...]]] = {
        "trouble": lambda job: (severity(job), -_rate(job)),
        "dollars": lambda job: (-amount(job.status.cost.usd),),
        "rate": lambda job: (-_rate(job),),
        "age": lambda job: (-_created(job),),
        "name": lambda _: (0,),
    }
    return sorted(by_name, key=keys[order])


def as_data(job: Job, now: datetime) -> dict[str, object]:
    """Return what the row says, for programs: amounts as text, times as the API has them."""
    status = job.status
    return {
        "namespace": job.metadata.namespace,
        "name": job.metadata.name,
        "phase": status.phase,
        "reason": status.reason,
        "message": status.message,
        "workers": status.workers.summary,
        "spotWorkers": status.workers.spot,
        "step": status.progress.step,
        "totalSteps": status.progress.total_steps,
        "eta": status.progress.eta,
        "usd": status.cost.usd,
        "usdPerHour": status.cost.usd_per_hour,
        "savedUsd": status.cost.saved_usd,
        "budgetUsedPercent": status.cost.budget_used_percent,
        "ageSeconds": int(seconds_since(job.metadata.creation_timestamp, now) or 0),
        "troubles": [one.title for one in troubles(job)],
    }


def _row(job: Job, look: Look) -> tuple[str | Cell, ...]:
    status = job.status
    phase = status.phase or "-"
    left = seconds_since(status.progress.eta, look.now)
    is_rated = bool(_rate(job))
    return (
        job.metadata.name,
        Cell(
            phase,
            "red" if severity(job) <= 1 else COLOURS.get(phase),
        ),
        status.workers.summary or "-",
        str(status.workers.spot) if status.workers.spot is not None else "-",
        status.progress.percent or _step(job),
        span(left) if left is not None and left < 0 else "-",
        plain_usd(status.cost.usd),
        plain_usd(status.cost.usd_per_hour) if is_rated else "-",
        plain_usd(status.cost.saved_usd),
        status.cost.budget_used_percent or "-",
        age(job.metadata.creation_timestamp, look.now),
        _why(job),
    )


def _step(job: Job) -> str:
    step = job.status.progress.step
    return f"step {step:,}" if step is not None else "-"


def _why(job: Job) -> str:
    found = troubles(job)
    if found:
        return f"{found[0].title}: {found[0].message}"
    if job.status.phase in (Phase.RUNNING, Phase.SUCCEEDED):
        return ""
    return f"{job.status.reason}: {job.status.message}" if job.status.message else ""


def _sums(jobs: Sequence[Job]) -> list[str]:
    if not jobs:
        return []
    phases = Counter(job.status.phase or "not seen" for job in jobs)
    counted = ", ".join(f"{number} {phase}" for phase, number in phases.most_common())
    spent = sum((amount(job.status.cost.usd) for job in jobs), Decimal(0))
    saved = sum((amount(job.status.cost.saved_usd) for job in jobs), Decimal(0))
    rate = sum((_rate(job) for job in jobs), Decimal(0))
    return [
        "",
        (
            f"{things(len(jobs), 'job')} ({counted}): {usd(rate)}/h now, {usd(spent)} so far, "
            f"{usd(saved)} saved by spot"
        ),
    ]


def _rate(job: Job) -> Decimal:
    return amount(job.status.cost.usd_per_hour)


def _created(job: Job) -> float:
    created = moment(job.metadata.creation_timestamp)
    return created.timestamp() if created else 0.0
