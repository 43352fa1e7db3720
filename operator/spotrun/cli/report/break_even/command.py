"""`kubectl tjob breakeven`: read pools and bills, compare, and print."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction

from spotrun.cli.cluster.exit_codes import DONE
from spotrun.cli.cluster.installation import system_namespace
from spotrun.cli.cluster.session import Cluster, ask
from spotrun.cli.cluster.troubles import Refused, explained_denial
from spotrun.cli.jobs.output import written
from spotrun.cli.jobs.pool_model import Pool
from spotrun.cli.jobs.reading import all_pools
from spotrun.cli.report.bills.charges import Charge, charges
from spotrun.cli.report.bills.command import bills_of
from spotrun.cli.report.break_even.facts import Hours, Market, hours_of, market, uses_of
from spotrun.cli.report.break_even.offers import offers, open_share
from spotrun.cli.report.break_even.screen import Compared, as_data, screen
from spotrun.cli.text.look import look_of
from spotrun.money.ownership.comparison import Use
from spotrun.policies.cost.billing.months import begin_of, month_of


def understand(chosen: Namespace) -> Namespace:
    """Read the windows; raises ValueError that says what is wrong."""
    chosen.open_share = open_share(chosen.windows)
    return chosen


def run(chosen: Namespace) -> int:
    """Print the comparison."""

    async def work(cluster: Cluster) -> int:
        months = _months(chosen, cluster.client.clock.now())
        bills = [bill for month in months for bill in await bills_of(cluster, month)]
        found = [charge for bill in bills for charge in charges(bill)]
        pools = await _pools(cluster)
        compared, unpriced = comparison(chosen, pools, found, months)
        for name in unpriced:
            print(f"# pool {name} has no price: its bills are left out", file=sys.stderr)
        if chosen.output:
            print(written(as_data(compared), chosen.output, []))
        else:
            print("\n".join(screen(compared, look_of(sys.stdout))))
        return DONE

    return ask(chosen, work)


async def _pools(cluster: Cluster) -> tuple[Pool, ...]:
    """Read the CapacityPools; raises KubeError, and Refused where these may not be read."""
    with explained_denial(_RIGHTS):
        return await all_pools(cluster)


_RIGHTS = (
    "CapacityPools belong to no namespace: ask an admin of the cluster to bind the ClusterRole "
    "spotrun-view to you by a ClusterRoleBinding"
)


def comparison(
    chosen: Namespace,
    pools: Sequence[Pool],
    found: Sequence[Charge],
    months: Sequence[str],
) -> tuple[Compared, Sequence[str]]:
    """Return what to print, and the pools that had to be left out; raises Refused."""
    uses = uses_of(found)
    these = market(pools, uses, chosen.like)
    if these is None:
        raise Refused(_no_pool(chosen.like))
    hours = hours_of(these, uses)
    use, source = _use(chosen, these, hours, months)
    known = tuple(offers(chosen, these, hours))
    if len(known) < 2:
        raise Refused(_too_few(these, [one.name for one in known]))
    return Compared(these.kind, source, use, known, chosen.months), hours.unpriced


def _use(chosen: Namespace, these: Market, hours: Hours, months: Sequence[str]) -> tuple[Use, str]:
    if chosen.hours_per_month is not None:
        return Use(Fraction(str(chosen.hours_per_month)), chosen.open_share), "as you say"
    if not hours.useful:
        raise Refused(
            f"the bills of {', '.join(months)} in {system_namespace()} have no use of nodes with "
            f"{these.kind}: choose another --month, look at all namespaces with -A, choose other "
            "nodes with --like POOL, or give --hours-per-month"
        )
    return Use(hours.useful / len(months), chosen.open_share), f"bills of {', '.join(months)}"


def _months(chosen: Namespace, now: datetime) -> list[str]:
    if chosen.hours_per_month is not None:
        return []
    return chosen.bills or [month_of(begin_of(month_of(now)) - timedelta(days=1))]


def _no_pool(like: str | None) -> str:
    if like:
        return f"there is no CapacityPool {like!r}: `kubectl get cpool` lists them"
    return "the cluster has no CapacityPool: declare one as in examples/capacity-pool.yaml"


def _too_few(these: Market, known: Sequence[str]) -> str:
    has = f"only the price of {known[0]} is" if known else "no price is"
    names = ", ".join(pool.metadata.name for pool in these.pools)
    return (
        f"{has} known of nodes with {these.kind} (pools {names}), and a comparison needs two: give "
        "--spot, --on-demand, --reserved-1y or --reserved-3y, or say in `ownNodes` of a "
        "CapacityPool what nodes of your own cost"
    )
