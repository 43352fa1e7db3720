"""The flags of `spotrun simulate` on its command line, and their help.

Standard library only: help answers at once, and also if nothing else is installed.
"""

import argparse
from pathlib import Path

from spotrun.cli.replay import replay_flags
from spotrun.cli.text import numbers

POLICIES = ("spotrun", "greedy", "uniform-progress", "on-demand", "optimum")
_EXAMPLES = """\
examples:
  48 h of work due in 60 h on one recorded zone, beginning with its first tick:
      spotrun simulate --trace zone-a.json --work-hours 48 --deadline-hours 60

  the mean of twelve starts a day apart, three zones to choose from, another policy:
      spotrun simulate --trace a.json --trace b.json --trace c.json --work-hours 48 \\
          --deadline-hours 60 --every 443 --starts 12 --policy uniform-progress --json

  the assumptions of published replays: the capacity is always known, and no work is lost:
      spotrun simulate --trace a.json --work-hours 48 --deadline-hours 60 \\
          --observe market --checkpoint-minutes 0

  2 to 16 workers, for as much work as 8 workers do in 24 h:
      spotrun simulate --trace a.json --work-hours 24 --workers 8 --min-workers 2 \\
          --max-workers 16 --deadline-hours 36

Each trace is one pool; docs/replay.md has the schema, and says what the figures mean and what they
do not mean. Exit codes: 0 the replay ended, whether the deadline was met or not, 2 the flags are
wrong.
"""


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the flags to a parser."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.usage = f"{parser.prog} --trace FILE --work-hours H --deadline-hours H [flags]"
    _describe_job(parser.add_argument_group("the job"))
    _describe_market(parser.add_argument_group("the market"))
    _describe_rules(parser.add_argument_group("the rules"))
    _describe_output(parser.add_argument_group("replay and output"))


def _describe_job(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--work-hours",
        type=numbers.hours,
        required=True,
        metavar="H",
        help="hours of work at full size",
    )
    group.add_argument(
        "--deadline-hours",
        type=numbers.hours,
        required=True,
        metavar="H",
        help="hours from the start to the deadline",
    )
    group.add_argument(
        "--workers", type=numbers.count, default=1, metavar="N", help="the full size (default: 1)"
    )
    group.add_argument(
        "--min-workers",
        type=numbers.count,
        metavar="N",
        help="the fewest workers (default: full size); the other policies stay at full size",
    )
    group.add_argument(
        "--max-workers",
        type=numbers.count,
        metavar="N",
        help="the most workers (default: full size)",
    )


def _describe_market(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--trace",
        dest="traces",
        type=Path,
        action="append",
        required=True,
        metavar="FILE",
        help="a recorded pool; may be given several times",
    )
    group.add_argument(
        "--start-tick",
        type=numbers.whole,
        default=0,
        metavar="TICK",
        help="where to begin, in ticks of the first trace (default: 0)",
    )
    group.add_argument(
        "--every", type=numbers.count, metavar="TICKS", help="distance between several starts"
    )
    group.add_argument(
        "--starts", type=numbers.count, default=1, metavar="N", help="number of starts (default: 1)"
    )
    replay_flags.add_prices(group, ", for traces without one")


def _describe_rules(group: argparse._ArgumentGroup) -> None:
    replay_flags.add_changeover(group)
    group.add_argument(
        "--checkpoint-minutes",
        type=numbers.minutes,
        default=10.0,
        metavar="MIN",
        help="time between checkpoints; work since the last one is lost with the last worker; "
        "0: nothing is ever lost (default: 10)",
    )
    group.add_argument(
        "--observe",
        choices=("market", "attempts"),
        default="attempts",
        help="market: whether a pool has nodes is known at every moment, as in published replays; "
        "attempts: a policy has to ask, and to wait for the answer (default: attempts)",
    )
    replay_flags.add_assume_capacity(
        group, "; without it more workers than were probed are refused"
    )
    group.add_argument(
        "--on-demand-dry-rate",
        type=numbers.share,
        default=0.0,
        metavar="SHARE",
        help="the share of hours, drawn at random, in which no more on-demand nodes are available "
        "(default: 0)",
    )


def _describe_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--policy",
        choices=POLICIES,
        default="spotrun",
        help="the policy that decides (default: spotrun)",
    )
    group.add_argument("--json", action="store_true", help="print one JSON object, not a table")
