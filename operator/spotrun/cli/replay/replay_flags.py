"""Flags of all commands that replay recorded markets. Standard library only."""

import argparse

from spotrun.cli.text import numbers


def add_changeover(group: argparse._ArgumentGroup) -> None:
    """Add the flag for the paid time of a new node before its worker trains."""
    group.add_argument(
        "--changeover-minutes",
        type=numbers.minutes,
        default=10.0,
        metavar="MIN",
        help="paid time of a new node until its worker trains (default: 10)",
    )


def add_assume_capacity(group: argparse._ArgumentGroup, otherwise: str = "") -> None:
    """Add the flag for the assumption about nodes that no probe asked for."""
    group.add_argument(
        "--assume-capacity",
        action="store_true",
        help=f"where all probed nodes were available, assume that more were, too{otherwise}",
    )


def add_prices(group: argparse._ArgumentGroup, what: str) -> None:
    """Add the flags for prices of nodes, for `what`."""
    for name in ("spot", "on-demand"):
        group.add_argument(
            f"--{name}-price",
            type=numbers.usd_per_hour,
            metavar="USD",
            help=f"{name} price of a node per hour{what}",
        )
