"""The flags of the verbs for jobs, and their help.

Standard library only: help answers at once, and also if nothing else is installed.
"""

import argparse

from spotrun.cli.cluster import flags
from spotrun.cli.text import numbers

SORTS = ("trouble", "dollars", "rate", "age", "name")
GROUPS = ("job", "namespace", "pool", "team", "project", "cost-center")

_LIST = """\
  the jobs of this namespace, first those that need attention:
      kubectl tjob list

  all namespaces, the most expensive job first:
      kubectl tjob list -A --sort dollars

  names for a loop in a shell:
      kubectl tjob list -o name
"""
_SHOW = """\
  state, workers, money, decisions, and what to do next:
      kubectl tjob show gpt

  the figures for a program:
      kubectl tjob show gpt -o json
"""
_WATCH = """\
  the same as `show`, updated as the job changes; Ctrl-C ends it, and the job continues:
      kubectl tjob watch gpt

  a line for each change, in a pipe or a CI log; ends with the job, with exit code 1 if it failed:
      kubectl tjob watch gpt | cat
"""
_WHY = """\
  why the job waits or has failed, and the reasons for its size, nodes and price:
      kubectl tjob why gpt
"""
_LOGS = """\
  follow the log of rank 0:
      kubectl tjob logs gpt -f

  all workers in the order of time, each line with its rank:
      kubectl tjob logs gpt --all

  the last 100 lines of rank 3, with times:
      kubectl tjob logs gpt --rank 3 --tail 100 --timestamps
"""
_COST = """\
  what a job has cost, by pool, and what that money bought:
      kubectl tjob cost gpt

  what each team spends, in all namespaces:
      kubectl tjob cost -A --by team
"""
_SUSPEND = """\
  save a checkpoint, give all workers back, and wait until they are gone:
      kubectl tjob suspend gpt --wait
"""
_RESUME = """\
  continue from the last checkpoint:
      kubectl tjob resume gpt
"""
_SCALE = """\
  ask for six workers, between workers.min and workers.max:
      kubectl tjob scale gpt 6
"""
_CHECKPOINT = """\
  save now, and wait until the checkpoint is durable:
      kubectl tjob checkpoint gpt
"""
_PROFILE = """\
  profile the next 20 steps of rank 0; a trace is saved beside the checkpoints:
      kubectl tjob profile gpt --steps 20

  the same for rank 3:
      kubectl tjob profile gpt --rank 3
"""
_STOP = """\
  save a checkpoint, end the job, print its bill and delete it; checkpoints stay:
      kubectl tjob stop gpt --yes
"""


def describe_list(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `list`."""
    flags.describe(parser, _LIST, "[-A] [--sort ORDER] [-o FORMAT]")
    flags.add_all_namespaces(parser)
    flags.add_output(parser)
    parser.add_argument(
        "--sort", choices=SORTS, default="trouble", help="the order of the jobs (default: trouble)"
    )


def describe_show(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `show`."""
    flags.describe(parser, _SHOW, "NAME [-o FORMAT]")
    flags.add_name(parser)
    flags.add_output(parser)


def describe_watch(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `watch`."""
    flags.describe(parser, _WATCH, "NAME")
    flags.add_name(parser)


def describe_why(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `why`."""
    flags.describe(parser, _WHY, "NAME [-o FORMAT]")
    flags.add_name(parser)
    flags.add_output(parser, ("json", "yaml"))


def describe_logs(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `logs`."""
    flags.describe(parser, _LOGS, "NAME [--rank N | --all] [-f] [--tail LINES]")
    flags.add_name(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--rank", type=numbers.whole, metavar="N", help="default: rank 0")
    which.add_argument("--all", action="store_true", help="all workers, merged by time")
    parser.add_argument("-f", "--follow", action="store_true", help="print new lines as they come")
    parser.add_argument(
        "--tail",
        type=numbers.whole,
        metavar="LINES",
        help="only so many last lines of each log (default: all)",
    )
    parser.add_argument("--timestamps", action="store_true", help="print the time of each line")
    parser.add_argument(
        "--no-marks", action="store_true", help="do not mark where the world changes"
    )


def describe_cost(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `cost`."""
    flags.describe(parser, _COST, "[NAME | -A] [--by GROUP] [-o FORMAT]")
    parser.add_argument("name", nargs="?", metavar="NAME", help="one TrainingJob (default: all)")
    flags.add_all_namespaces(parser)
    flags.add_output(parser, ("json", "yaml", "csv"))
    parser.add_argument(
        "--by", choices=GROUPS, default="job", help="sum the cost by (default: job)"
    )


def describe_suspend(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `suspend`."""
    flags.describe(parser, _SUSPEND, "NAME [--wait]")
    flags.add_name(parser)
    parser.add_argument("--wait", action="store_true", help="wait until no worker is left")


def describe_resume(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `resume`."""
    flags.describe(parser, _RESUME, "NAME")
    flags.add_name(parser)


def describe_scale(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `scale`."""
    flags.describe(parser, _SCALE, "NAME WORKERS")
    flags.add_name(parser)
    parser.add_argument("workers", type=numbers.count, metavar="WORKERS", help="how many workers")


def describe_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `checkpoint`."""
    flags.describe(parser, _CHECKPOINT, "NAME [--timeout SECONDS]")
    flags.add_name(parser)
    _add_timeout(parser)


def describe_profile(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `profile`."""
    flags.describe(parser, _PROFILE, "NAME [--steps N] [--rank R] [--timeout SECONDS]")
    flags.add_name(parser)
    parser.add_argument(
        "--steps",
        type=numbers.profiled_steps,
        default=20,
        metavar="N",
        help="how many (default: 20)",
    )
    parser.add_argument(
        "--rank", type=numbers.whole, default=0, metavar="R", help="the worker's rank (default: 0)"
    )
    _add_timeout(parser)


def describe_stop(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `stop`."""
    flags.describe(parser, _STOP, "NAME [--yes]")
    flags.add_name(parser)
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")


def _add_timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout",
        type=numbers.count,
        default=300,
        metavar="SECONDS",
        help="how long to wait for it (default: 300)",
    )
