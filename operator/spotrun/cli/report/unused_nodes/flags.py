"""The flags of `kubectl tjob idle`.

Standard library only: help answers at once, and also if nothing else is installed.
"""

import argparse

from spotrun.cli.cluster import flags
from spotrun.cli.text import numbers

_EXAMPLES = """\
  nodes that nobody has used for ten minutes, by pool, with what they cost and why they stay:
      kubectl tjob idle

  only nodes that were unused for an hour:
      kubectl tjob idle --minutes 60

Pods of DaemonSets, static pods and finished pods do not count. This command needs the right to list
nodes and the pods of all namespaces. It changes nothing: it says how to ask Karpenter or
cluster-autoscaler to remove a node that they keep. docs/idle-nodes.md says more.
"""


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    flags.describe(parser, _EXAMPLES, "[--minutes N]")
    parser.add_argument(
        "--minutes",
        type=numbers.minutes,
        default=10.0,
        metavar="N",
        help="leave out nodes that were used, or made, within this time (default: 10)",
    )
    flags.add_output(parser, ("json",))
