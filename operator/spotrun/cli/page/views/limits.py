"""SpendLimits as the page shows them: what is spent, and of how much. Pure."""

import msgspec

from spotrun.cli.jobs.model import ObjectMeta, Part
from spotrun.cli.page.views.fleet import number


class LimitSpec(Part, frozen=True):
    """The wanted limit; the defaults are those of the API."""

    limit_usd: str | None = None
    period: str = "Month"
    on_exceeded: str = "Hold"


class LimitJobs(Part, frozen=True):
    """The number of jobs under the limit."""

    running: int = 0
    held: int = 0
    suspended: int = 0


class LimitStatus(Part, frozen=True):
    """The sums."""

    spent_usd: str | None = None
    reserved_usd: str | None = None
    forecast_usd: str | None = None
    jobs: LimitJobs = LimitJobs()
    message: str = ""


class Limit(msgspec.Struct, frozen=True):
    """A SpendLimit, decoded only as far as it is shown."""

    metadata: ObjectMeta
    spec: LimitSpec = LimitSpec()
    status: LimitStatus = LimitStatus()


class LimitRow(msgspec.Struct, frozen=True, rename="camel"):
    """A SpendLimit in the list."""

    key: str  # namespace/name
    period: str
    on_exceeded: str
    limit_usd: float | None
    spent_usd: float | None
    reserved_usd: float | None
    forecast_usd: float | None
    running: int
    held: int
    suspended: int
    message: str


def limit_row(limit: Limit) -> LimitRow:
    """Return the row of a limit."""
    meta, spec, status = limit.metadata, limit.spec, limit.status
    return LimitRow(
        key=f"{meta.namespace}/{meta.name}",
        period=spec.period,
        on_exceeded=spec.on_exceeded,
        limit_usd=number(spec.limit_usd),
        spent_usd=number(status.spent_usd),
        reserved_usd=number(status.reserved_usd),
        forecast_usd=number(status.forecast_usd),
        running=status.jobs.running,
        held=status.jobs.held,
        suspended=status.jobs.suspended,
        message=status.message,
    )
