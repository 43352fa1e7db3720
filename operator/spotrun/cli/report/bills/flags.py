"""The flags of `kubectl tjob bill`."""

import argparse
from datetime import UTC, datetime

from spotrun.cli.cluster import flags

FORMATS = ("table", "csv", "json", "focus")
LABELS = ("team", "cost-center", "project")
GROUPS = ("job", "namespace", "pool", "capacity", "category", *LABELS)


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    flags.describe(parser, _EXAMPLES, "[--month YYYY-MM] [--by GROUP] [--format FORMAT] [-A]")
    flags.add_all_namespaces(parser)
    parser.add_argument(
        "--month", type=month, metavar="YYYY-MM", help="in UTC (default: the current month)"
    )
    parser.add_argument(
        "--by",
        type=_group,
        default="job",
        metavar="GROUP",
        help=f"sum the cost by {', '.join(GROUPS)}, or label=KEY (default: job)",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="table",
        help="focus: CSV with a line for each charge, as in the FinOps specification FOCUS 1.0",
    )


def month(text: str) -> str:
    """Read a month."""
    try:
        return datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC).strftime("%Y-%m")
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no month, such as 2026-11") from None


def _group(text: str) -> str:
    group = text.removeprefix("label=")
    allowed = LABELS if group != text else GROUPS
    if group not in allowed:
        raise argparse.ArgumentTypeError(
            f"bills have no group {text!r}: choose one of {', '.join(allowed)}"
        )
    return group


_EXAMPLES = """\
  kubectl tjob bill                                  # this month, by job
  kubectl tjob bill -A --month 2026-11 --by team     # all namespaces, by the label team
  kubectl tjob bill -A --by label=cost-center --format csv
  kubectl tjob bill -A --format focus > focus.csv    # for FinOps tools

Bills are ConfigMaps in the operator's namespace (SPOTRUN_SYSTEM_NAMESPACE, default:
spotrun-system): -A needs the right to list them there, -n the right to get that namespace's.
"""
