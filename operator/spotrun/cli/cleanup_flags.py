"""The flags of `spotrun cleanup` on its command line, and their help.

Standard library only: help answers at once, and also if the operator's libraries are not installed.
"""

import argparse

from spotrun.cli.operator_flags import add_options

_EXAMPLES = """\
examples:
  before the operator is removed with kubectl; `helm uninstall` does it by itself:
      spotrun cleanup --stop-deployment spotrun

  afterwards, where pods or namespaces are stuck in Terminating:
      spotrun cleanup

Workers' pods wait until the operator has written what they cost into their job's status. This
command lets go of all of them, and of nothing else: no job and no pod is deleted, and what runs
goes on. What they will have cost since the operator's last look is in no status. It does nothing
while an operator leads. It may be run again. Exit codes: 0 no pod waits any more, 1 it could not be
done, 2 it was started wrongly.
"""


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the flags to a parser."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.usage = f"{parser.prog} [--stop-deployment NAME] [flags]"
    parser.add_argument(
        "--stop-deployment",
        metavar="NAME",
        help="scale this Deployment in the operator's own namespace to zero first",
    )
    add_options(parser, ("kubeconfig", "context", "namespace", "watch_namespace"))
