"""`kubectl tjob bill`: read bills, add them up, and write them."""

import csv
import io
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence

from spotrun.api import names
from spotrun.cli.cluster.exit_codes import DONE, NOT_THERE
from spotrun.cli.cluster.installation import system_namespace
from spotrun.cli.cluster.session import Cluster, ask
from spotrun.cli.cluster.troubles import Unreadable, explained_denial
from spotrun.cli.jobs.output import written
from spotrun.cli.report.bills.charges import Charge, Sum, charges, sums_by
from spotrun.cli.report.bills.focus import focus_row
from spotrun.cli.text.look import Look, look_of
from spotrun.cli.text.table import Column, table
from spotrun.kube.errors import NotFound
from spotrun.kube.rest.client import Selection
from spotrun.observe.kube_objects import CONFIG_MAPS, ConfigMapObject
from spotrun.policies.cost.billing.codec import DATA_KEY, bill_name, read
from spotrun.policies.cost.billing.month_bill import MonthBill
from spotrun.policies.cost.billing.months import month_of
from spotrun.policies.cost.billing.parts import Category


def run(chosen: Namespace) -> int:
    """Print the bills of a month."""

    async def work(cluster: Cluster) -> int:
        look = look_of(sys.stdout)
        month = chosen.month or month_of(cluster.client.clock.now())
        bills = await bills_of(cluster, month)
        if not bills:
            where = "any namespace" if cluster.is_everywhere else cluster.namespace
            print(
                f"There is no bill of {month} for {where} in {system_namespace()}: none of its "
                "TrainingJobs had a known price then. If the operator is in another namespace, set "
                "SPOTRUN_SYSTEM_NAMESPACE to it.",
                file=sys.stderr,
            )
            return NOT_THERE
        found = [charge for bill in bills for charge in charges(bill)]
        print("\n".join(screen(found, chosen.by, chosen.format, look)))
        return DONE

    return ask(chosen, work)


async def bills_of(cluster: Cluster, month: str) -> list[MonthBill]:
    """Read the bills of a month, of one namespace or of all.

    Raises KubeError, Unreadable, and Refused if these may not be read.
    """
    with explained_denial(_RIGHTS):
        if cluster.scope is not None:
            return await _bill_of(cluster, cluster.scope, month)
        chosen = Selection(CONFIG_MAPS, system_namespace(), f"{names.LABEL_BILL_MONTH}={month}")
        found = await cluster.client.list_all(chosen, ConfigMapObject)
    return [_read(one) for one in found.items]


async def _bill_of(cluster: Cluster, namespace: str, month: str) -> list[MonthBill]:
    """Read one bill by its name, which needs no right to read the others."""
    try:
        found = await cluster.client.get(
            CONFIG_MAPS,
            bill_name(namespace, month),
            ConfigMapObject,
            namespace=system_namespace(),
        )
    except NotFound:
        return []
    return [_read(found)]


_RIGHTS = (
    "A bill is a ConfigMap in the operator's namespace. The bill of one namespace (-n) needs the "
    "right to get that ConfigMap, and all bills need the right to list ConfigMaps there: ask "
    "an admin of the cluster"
)


def screen(found: Sequence[Charge], by: str, form: str, look: Look) -> list[str]:
    """Return the lines to print."""
    if form == "focus":
        return _as_csv([focus_row(charge) for charge in found])
    sums = sums_by(found, by)
    if form == "csv":
        return _as_csv([_as_data(one, by) for one in sums])
    if form == "json":
        return [written([_as_data(one, by) for one in sums], "json", [])]
    columns = (
        Column(by.upper(), is_kept=True),
        *(Column(f"{_HEADS[category]}($)", is_number=True) for category in Category),
        Column("TOTAL($)", is_number=True, is_kept=True),
    )
    total = Sum("(all)", {one: sum(row.cents[one] for row in sums) for one in Category})
    rows = [
        [row.group, *(_dollars(row.cents[one]) for one in Category), _dollars(row.total)]
        for row in (*sums, total)
    ]
    return table(columns, rows, look)


_HEADS = {
    Category.COMPUTE: "COMPUTE",
    Category.LOST_WORK: "LOST WORK",
    Category.IDLE: "IDLE",
    Category.STORAGE: "STORAGE",
    Category.TRANSFER: "TRANSFER",
}


def _as_data(one: Sum, by: str) -> dict[str, str]:
    parts = {f"{category}Usd": _dollars(cents) for category, cents in one.cents.items()}
    return {by: one.group, **parts, "usd": _dollars(one.total)}


def _dollars(cents: int) -> str:
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02d}"


def _as_csv(rows: Sequence[Mapping[str, str]]) -> list[str]:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys() if rows else (), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().splitlines()


def _read(found: ConfigMapObject) -> MonthBill:
    try:
        return read(found.data.get(DATA_KEY, ""))
    except ValueError as error:
        raise Unreadable(f"ConfigMap {found.metadata.name}: {error}") from error
