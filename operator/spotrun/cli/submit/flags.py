"""The flags of `kubectl tjob run` on its command line, and their help.

Standard library only: help answers at once, and also if nothing else is installed.
"""

import argparse

from spotrun.cli.cluster import flags
from spotrun.cli.text import numbers

_RUN = """\
  two to eight workers with a GPU each, spot nodes first, for at most 20 dollars:
      kubectl tjob run train.py --workers 2..8 --gpus 1 --mixed --budget 20 -- --epochs 3

  print the YAML of that job, to keep or to change it:
      kubectl tjob run train.py --workers 2..8 --gpus 1 --dry-run

  run the same script on this machine, under torchrun:
      kubectl tjob run train.py --local -- --epochs 3

  a folder with modules; checkpoints on a claim, so that the budget can suspend the job:
      kubectl tjob run src/ --entry train.py --checkpoint my-claim --budget 20 --yes

The script is sent as a ConfigMap that is deleted with the job; no image is built. The script gets
all arguments after --. It runs in /code, which is read-only: write to the checkpoint's folder or
/tmp.
A folder with private keys, passwords or a kubeconfig is refused, unless --allow-file names them.
"""


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the flags to a parser."""
    flags.describe(parser, _RUN, "SCRIPT|FOLDER [flags] [-- ARGUMENTS]")
    parser.add_argument("script", metavar="SCRIPT|FOLDER", help="of up to a megabyte")
    _describe_job(parser.add_argument_group("the job"))
    _describe_limits(parser.add_argument_group("capacity and limits"))
    _describe_way(parser.add_argument_group("how the job is started"))


def _describe_job(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--name", help="the job's name (default: that of the script)")
    group.add_argument("--entry", metavar="FILE", help="the script to run, if a folder is given")
    group.add_argument(
        "--allow-file",
        action="append",
        default=[],
        metavar="PATTERN",
        help="send files of this name although they look like keys; may be given several times",
    )
    group.add_argument(
        "--workers", default="1", metavar="N|LEAST..MOST", help="how many workers (default: 1)"
    )
    group.add_argument(
        "--gpus", type=numbers.whole, default=0, metavar="N", help="GPUs per worker (default: none)"
    )
    group.add_argument("--cpu", metavar="CORES", help="CPU that a worker requests")
    group.add_argument(
        "--memory", metavar="SIZE", help="memory that a worker requests, such as 8Gi"
    )
    group.add_argument(
        "--image",
        help="an image with Python and PyTorch (default: the one that the installation names)",
    )
    group.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="may be given several times",
    )
    group.add_argument(
        "--checkpoint",
        metavar="CLAIM|ADDRESS",
        help="a PersistentVolumeClaim, or an address such as s3://bucket/folder",
    )


def _describe_limits(group: argparse._ArgumentGroup) -> None:
    kind = group.add_mutually_exclusive_group()
    for flag, value, text in (
        ("--spot", "Spot", "only spot nodes, which can be taken away"),
        ("--mixed", "Mixed", "spot nodes first, on-demand nodes if there are none"),
        ("--on-demand", "OnDemand", "only on-demand nodes, which stay"),
    ):
        kind.add_argument(flag, dest="capacity", action="store_const", const=value, help=text)
    group.add_argument(
        "--budget",
        type=numbers.usd,
        metavar="USD",
        help="the most that the job may cost in total",
    )
    group.add_argument(
        "--deadline", metavar="TIME", help="the time in which the job has to finish, such as 6h"
    )


def _describe_way(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--work-hours",
        type=numbers.hours,
        metavar="H",
        help="hours of work of the job: replay it on recorded markets before it is submitted",
    )
    way = group.add_mutually_exclusive_group()
    way.add_argument("--dry-run", action="store_true", help="print the YAML, and do nothing else")
    way.add_argument("--local", action="store_true", help="run it under torchrun on this machine")
    group.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    group.add_argument("--detach", action="store_true", help="submit the job, and do not follow it")
