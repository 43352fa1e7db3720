"""Costs: of one job by pool and by what it bought, of many jobs by job, team or pool."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal

from spotrun.api.names import LABEL_COST_CENTER, LABEL_PROJECT, LABEL_TEAM
from spotrun.cli.jobs.model import Job
from spotrun.cli.text.look import Look
from spotrun.cli.text.table import Column, table
from spotrun.cli.text.words import age, amount, percent_of, plain_usd, usd

NONE = "(none)"
_LABELS = {"team": LABEL_TEAM, "project": LABEL_PROJECT, "cost-center": LABEL_COST_CENTER}
GROUPS = ("job", "namespace", "pool", *_LABELS)
_FIELDS = ("usd", "usdPerHour", "savedUsd")
_WASTE = {
    "redoneUsd": "steps done twice",
    "standstillUsd": "standstill around losses, restarts and changes of size",
    "peersUsd": "workers that waited for each other",
    "dataUsd": "workers that waited for data",
    "checkpointUsd": "standstill to save",
}


def bill(job: Job, look: Look) -> list[str]:
    """Return what one job has cost, and what for."""
    cost = job.status.cost
    if cost.usd is None:
        return ["Nothing yet: no worker has run, or no price is known."]
    total = amount(cost.usd)
    as_of = f", as of {age(cost.as_of, look.now)} ago" if cost.as_of else ""
    lines = [f"{job.metadata.namespace}/{job.metadata.name}: {usd(cost.usd)}{as_of}", ""]
    rows = [(text, plain_usd(value), percent_of(value, total)) for text, value in cost_parts(job)]
    columns = (
        Column("WHAT", is_kept=True),
        Column("COST($)", is_number=True),
        Column("SHARE", is_number=True),
    )
    lines += table(columns, rows, look)
    return [*lines, *cost_remarks(job)]


def cost_parts(job: Job) -> Iterator[tuple[str, Decimal]]:
    """Yield the parts of what a job has cost: by capacity, by pool, and what bought nothing."""
    cost = job.status.cost
    total, spot = amount(cost.usd), amount(cost.spot_usd)
    yield "all workers, while they had their nodes", total
    yield "  on spot capacity", spot
    yield "  on other capacity", total - spot
    for one in cost.by_pool:
        yield f"  in {f'pool {one.pool}' if one.pool else 'nodes of no pool'}", amount(one.usd)
    for name, text in _WASTE.items():
        if value := amount(cost.waste.get(name)):
            yield f"  bought nothing: {text}", value


def cost_remarks(job: Job) -> list[str]:
    """Return sentences on savings, goodput and what is still to come; the first is empty."""
    cost = job.status.cost
    said = []
    if cost.on_demand_usd and cost.saved_usd:
        on_demand = amount(cost.on_demand_usd)
        share = percent_of(amount(cost.saved_usd), on_demand)
        said.append(
            f"On demand the same steps would have cost {usd(cost.on_demand_usd)}: "
            f"{usd(cost.saved_usd)} saved ({share})."
        )
    if cost.goodput:
        said.append(f"Goodput {cost.goodput}: the share that bought steps which were kept.")
    if cost.usd_per_step:
        said.append(f"A step costs {usd(cost.usd_per_step)}, all other costs included.")
    if amount(cost.idle_usd):
        said.append(f"In addition, unused parts of its nodes: {usd(cost.idle_usd)}.")
    if cost.forecast_usd:
        said.append(f"Expected at the end: {usd(cost.forecast_usd)}.")
    if cost.pricing and cost.pricing != "Complete":
        said.append(f"Prices are {cost.pricing}: capacity without a known price counts as $0.")
    return ["", *said] if said else []


def sums_by(jobs: Sequence[Job], group: str) -> list[dict[str, str]]:
    """Add up the costs of jobs by group, the most expensive first; amounts as text.

    A status has no rates and savings by pool: they are left out, because they are not zero.
    """
    found: dict[str, list[Decimal]] = defaultdict(lambda: [Decimal(0)] * 3)
    for job in jobs:
        for name, usd_here, rate, saved in _shares(job, group):
            sums = found[name]
            found[name] = [sums[0] + usd_here, sums[1] + rate, sums[2] + saved]
    ordered = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))
    fields = _FIELDS[:1] if group == "pool" else _FIELDS
    return [
        {group: name, **dict(zip(fields, map(str, one), strict=False))} for name, one in ordered
    ]


def _shares(job: Job, group: str) -> Iterator[tuple[str, Decimal, Decimal, Decimal]]:
    cost, meta = job.status.cost, job.metadata
    if group == "pool":
        for one in cost.by_pool:
            yield one.pool or NONE, amount(one.usd), Decimal(0), Decimal(0)
        return
    name = {"job": f"{meta.namespace}/{meta.name}", "namespace": meta.namespace}.get(group)
    if name is None:
        name = meta.labels.get(_LABELS[group], NONE)
    yield name, amount(cost.usd), amount(cost.usd_per_hour), amount(cost.saved_usd)


def sums_table(sums: Sequence[dict[str, str]], group: str, look: Look) -> list[str]:
    """Return the sums as a table, with the sum of all at its end."""
    columns = (
        Column(group.upper(), is_kept=True),
        Column("COST($)", is_number=True, is_kept=True),
        Column("$/H", is_number=True),
        Column("SAVED($)", is_number=True),
    )

    def row(name: str, values: Sequence[str | Decimal | None]) -> tuple[str, ...]:
        return (name, *(plain_usd(value) for value in values))

    rows = [row(one[group], [one.get(field) for field in _FIELDS]) for one in sums]
    known = _FIELDS[:1] if group == "pool" else _FIELDS
    totals = [sum((amount(one[field]) for one in sums), Decimal(0)) for field in known]
    unknown = [None] * (len(_FIELDS) - len(known))
    return table(columns, [*rows, row("(all)", [*totals, *unknown])], look)
