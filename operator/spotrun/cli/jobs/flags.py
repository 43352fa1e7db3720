"""The flags of the verbs for jobs, and their help.

Standard library only: help answers at once, and also if nothing else is installed.
"""

import argparse

from spotrun.cli.cluster import flags

_LIST = """\
  the jobs of this namespace, those that need somebody first:
      kubectl tjob list

  all namespaces, the dearest first:
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
SORTS = ("trouble", "dollars", "rate", "age", "name")


def describe_list(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `list`."""
    flags.describe(parser, _LIST, "[-A] [--sort ORDER] [-o FORMAT]")
    flags.add_all_namespaces(parser)
    flags.add_output(parser)
    parser.add_argument(
        "--sort", choices=SORTS, default="trouble", help="the first one first (default: trouble)"
    )


def describe_show(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `show`."""
    flags.describe(parser, _SHOW, "NAME [-o FORMAT]")
    flags.add_name(parser)
    flags.add_output(parser)
