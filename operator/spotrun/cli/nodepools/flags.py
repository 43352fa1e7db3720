"""The flags of `kubectl tjob nodepools` on its command line, and their help.

Standard library only: help answers at once, and also if nothing else is installed.
"""

import argparse

from spotrun.cli.cluster import flags

GROUPS = {
    "AKSNodeClass": "karpenter.azure.com",
    "EC2NodeClass": "karpenter.k8s.aws",
    "GCENodeClass": "karpenter.k8s.gcp",
    "NodeClass": "eks.amazonaws.com",
}
"""The API groups of the kinds of node classes, by the clouds' Karpenters."""
KINDS = ("NodePool", "NodeOverlay")
MINUTES_LOST = 5.0

_EXAMPLES = """\
  a NodePool for each CapacityPool that you have declared, and NodeOverlays with prices that include
  how often nodes were taken away there; look at them, then apply them:
      kubectl tjob nodepools > nodepools.yaml
      kubectl apply -f nodepools.yaml

  update the prices, for example every hour from a CronJob:
      kubectl tjob nodepools --kind NodeOverlay | kubectl apply -f -

  nodes of another class, where an interruption costs ten minutes of work and restart:
      kubectl tjob nodepools --node-class EC2NodeClass/gpu --minutes-lost 10
"""


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the flags to a parser."""
    flags.describe(parser, _EXAMPLES, "[--kind NodePool|NodeOverlay] [--node-class KIND/NAME]")
    parser.add_argument("--kind", choices=KINDS, help="only these objects; default: both")
    parser.add_argument(
        "--node-class",
        type=_node_class,
        default=("EC2NodeClass", "default"),
        metavar="KIND/NAME",
        help="the class that creates the nodes: "
        + ", ".join(GROUPS)
        + "; default: EC2NodeClass/default",
    )
    parser.add_argument(
        "--minutes-lost",
        type=_minutes,
        default=MINUTES_LOST,
        metavar="MINUTES",
        help="cost of an interruption (unsaved work and restart), in minutes of the node's price; "
        f"default: {MINUTES_LOST:.0f}",
    )
    flags.add_output(parser, ("yaml", "json"))


def _node_class(text: str) -> tuple[str, str]:
    kind, _, name = text.partition("/")
    if kind in GROUPS and name:
        return kind, name
    raise argparse.ArgumentTypeError(
        f"{text!r} is no node class: write KIND/NAME with a kind of {', '.join(GROUPS)}"
    )


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = -1.0
    if 0 <= minutes <= 24 * 60:
        return minutes
    raise argparse.ArgumentTypeError(f"{text!r} is no number of minutes from 0 to 1440")
