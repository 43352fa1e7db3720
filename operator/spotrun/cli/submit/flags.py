"""The flags of `kubectl tjob run` on its command line, and their help.

Standard library only: help answers at once, and also if nothing else is installed.
"""

import argparse

from spotrun.cli.cluster import flags
from spotrun.cli.text import numbers

_RUN = """\
  two to eight workers with a GPU each, on spot first, for at most 20 dollars:
      kubectl tjob run train.py --workers 2..8 --gpus 1 --mixed --budget 20 -- --epochs 3

  the YAML that this is, to keep or to change:
      kubectl tjob run train.py --workers 2..8 --gpus 1 --dry-run

  the same script here, under torchrun:
      kubectl tjob run train.py --local -- --epochs 3

  a folder with its modules; checkpoints on a claim, so that the budget can suspend it:
      kubectl tjob run src/ --entry train.py --checkpoint my-claim --budget 20 --yes

The script is sent as a ConfigMap that goes with the job: no image is built. What follows -- is for
the script. It runs in /code, which is read-only: write to the checkpoint's folder or /tmp.
A folder with private keys, passwords or a kubeconfig is refused, unless --allow-file names them.
"""


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the flags to a parser."""
    flags.describe(parser, _RUN, "SCRIPT|FOLDER [flags] [-- ARGUMENTS]")
    parser.add_argument("script", metavar="SCRIPT|FOLDER", help="up to a megabyte")
    _describe_job(parser.add_argument_group("the job"))
    _describe_limits(parser.add_argument_group("capacity and limits"))
    _describe_way(parser.add_argument_group("the way it is done"))


def _describe_job(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--name", help="of the job (default: that of the script)")
    group.add_argument("--entry", metavar="FILE", help="the script, in a folder of several")
    group.add_argument(
        "--allow-file",
        action="append",
        default=[],
        metavar="PATTERN",
        help="send files of this name although they look like keys; may be given often",
    )
    group.add_argument(
        "--workers", default="1", metavar="N|LEAST..MOST", help="how many (default: 1)"
    )
    group.add_argument(
        "--gpus", type=numbers.whole, default=0, metavar="N", help="of a worker (default: none)"
    )
    group.add_argument("--cpu", metavar="CORES", help="that a worker requests")
    group.add_argument("--memory", metavar="SIZE", help="that a worker requests, such as 8Gi")
    group.add_argument(
        "--image", help="Python and PyTorch (default: the one that the installation names)"
    )
    group.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="may be given often"
    )
    group.add_argument(
        "--checkpoint",
        metavar="CLAIM|ADDRESS",
        help="a PersistentVolumeClaim, or an address such as s3://bucket/folder",
    )


def _describe_limits(group: argparse._ArgumentGroup) -> None:
    kind = group.add_mutually_exclusive_group()
    for flag, value, text in (
        ("--spot", "Spot", "only capacity that can be taken away"),
        ("--mixed", "Mixed", "spot first, on demand where there is none"),
        ("--on-demand", "OnDemand", "only capacity that stays"),
    ):
        kind.add_argument(flag, dest="capacity", action="store_const", const=value, help=text)
    group.add_argument(
        "--budget", type=numbers.usd_per_hour, metavar="USD", help="the most it may cost in all"
    )
    group.add_argument("--deadline", metavar="TIME", help="to be done within, such as 6h")


def _describe_way(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--work-hours",
        type=numbers.hours,
        metavar="H",
        help="replay recorded markets with so much work before it is submitted",
    )
    way = group.add_mutually_exclusive_group()
    way.add_argument("--dry-run", action="store_true", help="print the YAML, and do nothing")
    way.add_argument("--local", action="store_true", help="under torchrun on this machine")
    group.add_argument("-y", "--yes", action="store_true", help="do not ask")
    group.add_argument(
        "--detach", action="store_true", help="submit, and do not follow it until Ctrl-C"
    )
