"""The flags of `kubectl tjob breakeven`.

Standard library only: help answers at once, and also if nothing else is installed.
"""

import argparse
from decimal import Decimal

from spotrun.cli.cluster import flags
from spotrun.cli.report.bills.flags import month
from spotrun.cli.text import numbers

_EXAMPLES = """\
  what last month's bills of all namespaces would have cost on nodes of your own:
      kubectl tjob breakeven -A

  two months, and the prices that a cloud asks for a reserved node:
      kubectl tjob breakeven -A --month 2026-09 --month 2026-10 \\
          --reserved-1y 38.20 --reserved-3y 24.70

  no bill yet: 2000 node-hours a month, by the prices of the cluster's pools:
      kubectl tjob breakeven --hours-per-month 2000

  nodes that train at night only:
      kubectl tjob breakeven -A --window "Mon-Fri 20:00-06:00 Europe/Berlin" \\
          --window "Sat-Sun 00:00-24:00 Europe/Berlin"

Prices come from the CapacityPools of one kind of node: `ownNodes` of a pool says what your own
nodes cost. Each flag replaces what they say. docs/break-even.md has the arithmetic.
"""


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    flags.describe(parser, _EXAMPLES, "[-A] [--month YYYY-MM | --hours-per-month H] [flags]")
    flags.add_all_namespaces(parser)
    _describe_use(parser.add_argument_group("the use"))
    _describe_prices(parser.add_argument_group("the prices of a node"))
    parser.add_argument(
        "--months",
        type=_months,
        default=48,
        metavar="N",
        help="how many months to compare, up to 240 (default: 48)",
    )
    flags.add_output(parser, ("json",))


def _describe_use(group: argparse._ArgumentGroup) -> None:
    use = group.add_mutually_exclusive_group()
    use.add_argument(
        "--month",
        dest="bills",
        type=month,
        action="append",
        metavar="YYYY-MM",
        help="a month of bills; their mean if given several times (default: the last whole month)",
    )
    use.add_argument(
        "--hours-per-month",
        type=numbers.hours,
        metavar="H",
        help="node-hours of useful work a month; no bill is read",
    )
    group.add_argument(
        "--like",
        metavar="POOL",
        help="compare nodes like those of this pool (default: those of the pool with ownNodes, "
        "else those that cost most)",
    )
    group.add_argument(
        "--window",
        dest="windows",
        action="append",
        default=[],
        metavar='"DAYS FROM-TO [ZONE]"',
        help="jobs run in this window only, as in `schedule` of a TrainingJob; may be given "
        "several times (default: at all hours)",
    )
    group.add_argument(
        "--lost-work",
        type=numbers.part_of_100,
        metavar="PERCENT",
        help="percentage of spot hours whose work was lost (default: from the bills, else 0)",
    )
    group.add_argument(
        "--utilization",
        type=_share,
        default=Decimal(1),
        metavar="SHARE",
        help="share of a reserved node's hours in which jobs use it (default: 1)",
    )


def _describe_prices(group: argparse._ArgumentGroup) -> None:
    for name, what in (
        ("spot", "on spot"),
        ("on-demand", "on demand"),
        ("reserved-1y", "reserved for 1 year, all hours paid"),
        ("reserved-3y", "reserved for 3 years, all hours paid"),
    ):
        group.add_argument(
            f"--{name}", type=numbers.usd_per_hour, metavar="USD", help=f"price per hour, {what}"
        )


def _months(text: str) -> int:
    months = numbers.count(text)
    if months > 240:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of months from 1 to 240")
    return months


def _share(text: str) -> Decimal:
    if not numbers.share(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no share above 0 and at most 1")
    return Decimal(text)
