"""The flags of `kubectl tjob tune` on its command line, and their help.

Standard library only: help answers at once, and also if nothing else is installed.
"""

import argparse

_EXAMPLES = """\
examples:
  the trials of a search, the best first, and what each has cost:
      kubectl tjob tune lr-search

  the same of one that was saved in a file:
      kubectl get tuningjob lr-search -o yaml | kubectl tjob tune -f -

The cluster is asked by kubectl, with your own rights. Exit codes: 0 it was printed, 1 kubectl did
not find it, 2 the flags or the file are wrong.
"""


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the flags to a parser."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.usage = f"{parser.prog} NAME [-n NAMESPACE] [--context CONTEXT] | -f FILE"
    parser.add_argument("name", nargs="?", metavar="NAME", help="the name of a TuningJob")
    parser.add_argument("-f", "--filename", metavar="FILE", help="a TuningJob; -: standard input")
    parser.add_argument("-n", "--namespace", help="its namespace (default: kubectl's)")
    parser.add_argument("--context", help="the cluster, by kubectl's name (default: kubectl's)")
