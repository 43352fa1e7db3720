"""The flags of `kubectl tjob tune` on its command line, and their help.

Standard library only: help answers at once, and also if nothing else is installed.
"""

import argparse

from spotrun.cli.cluster import flags

_EXAMPLES = """\
  the trials of a search, the best first, and what each has cost:
      kubectl tjob tune lr-search

  the same for a TuningJob that was saved in a file:
      kubectl get tuningjob lr-search -o yaml | kubectl tjob tune -f -
"""


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the flags to a parser."""
    flags.describe(parser, _EXAMPLES, "NAME [flags] | -f FILE")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the name of a TuningJob")
    parser.add_argument("-f", "--filename", metavar="FILE", help="a TuningJob; -: standard input")
