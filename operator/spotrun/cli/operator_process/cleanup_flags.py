"""The flags of `spotrun cleanup` on its command line, and their help.

Standard library only: help answers at once, and also if the operator's libraries are not installed.
"""

import argparse

from spotrun.cli.operator_process.flags import add_options

_EXAMPLES = """\
examples:
  before the operator is removed with kubectl; `helm uninstall` does it by itself:
      spotrun cleanup --stop-deployment spotrun

  afterwards, if pods or namespaces are stuck in Terminating:
      spotrun cleanup

The pods of workers have a finalizer: they stay until the operator has written their cost into the
status of their job. Jobs under a SpendLimit have one too: they stay until their cost is written
into the SpendLimit. This command removes both finalizers from all of them, and changes nothing
else: no job and no pod is deleted, and what runs continues. Costs of a worker after the operator
last wrote them are in no status. The command does nothing while an operator leads, and may be run
again.
Exit codes: 0 no finalizer of spotrun is left, 1 that could not be done, 2 the flags are wrong.
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
