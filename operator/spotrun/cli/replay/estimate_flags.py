"""The flags of `kubectl tjob estimate` on its command line, and their help.

Standard library only: help answers at once, and also if nothing else is installed.
"""

import argparse
from pathlib import Path

from spotrun.cli.replay import replay_flags
from spotrun.cli.text import numbers

_EXAMPLES = """\
examples:
  a job that needs 48 h at its full size, on all recorded markets that have enough nodes:
      kubectl tjob estimate -f job.yaml --work-hours 48

  the rest of a job that trains; its status says how much work is left:
      kubectl get trainingjob gpt -o yaml | kubectl tjob estimate -f -

  recorded markets, but the prices of your own nodes:
      kubectl tjob estimate -f job.yaml --work-hours 48 --spot-price 1.10 --on-demand-price 3.40

  recordings of your own zones, each a pool to choose from:
      kubectl tjob estimate -f job.yaml --work-hours 48 --trace zone-a.json --trace zone-b.json

No cluster and no cloud is asked. The operator's own decisions are replayed on recorded spot
markets, from moments spread evenly over each; docs/replay.md says what such figures mean, and
what they do not mean. Exit codes: 0 the estimate was made, 2 the flags or the job are wrong.
"""


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the flags to a parser."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.usage = f"{parser.prog} -f FILE [--work-hours H] [flags]"
    _describe_job(parser.add_argument_group("the job"))
    _describe_market(parser.add_argument_group("the market"))
    _describe_output(parser.add_argument_group("replay and output"))


def _describe_job(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-f", "--filename", required=True, metavar="FILE", help="a TrainingJob; -: standard input"
    )
    group.add_argument(
        "--work-hours",
        type=numbers.hours,
        metavar="H",
        help="how long it would train without any loss, with as many workers as it wants "
        "(default: what its status says is left)",
    )
    replay_flags.add_changeover(group)
    group.add_argument(
        "--checkpoint-minutes",
        type=numbers.minutes,
        default=10.0,
        metavar="MIN",
        help="time between checkpoints if checkpoint.every is Auto (default: 10)",
    )
    group.add_argument(
        "--checkpoint-gb",
        type=numbers.gigabytes,
        metavar="GB",
        help="size of a checkpoint in a bucket, to compute its cost there (default: from the job's "
        "status)",
    )


def _describe_market(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--trace",
        dest="traces",
        type=Path,
        action="append",
        metavar="FILE",
        help="a recorded pool; may be given several times (default: the markets that are shipped)",
    )
    replay_flags.add_prices(group, " and worker (default: as recorded)")
    group.add_argument(
        "--pool",
        metavar="FILE",
        help="a CapacityPool whose usdPerHour or ownNodes is the price of a node, instead of "
        "--spot-price or --on-demand-price",
    )
    replay_flags.add_assume_capacity(group)
    group.add_argument(
        "--bucket-region",
        metavar="REGION",
        help="region of the bucket for checkpoints (default: as its status says, else us-east-1)",
    )
    group.add_argument(
        "--price-table",
        dest="price_tables",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="prices of object stores, CSV; may be given several times (default: S3 in us-east-1)",
    )


def _describe_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--starts",
        type=numbers.count,
        default=12,
        metavar="N",
        help="replays on each market (default: 12)",
    )
    group.add_argument("--json", action="store_true", help="print one JSON object, not a table")
