"""The flags of `spotrun operator` on its command line, and their help.

Standard library only: help answers at once, and also if the operator's libraries are not installed.
"""

import argparse
from collections.abc import Iterable
from dataclasses import fields

from spotrun.runtime.options import Options, flag, variable

_EXAMPLES = """\
examples:
  on your machine, with the cluster of your kubeconfig; its pods must reach this machine:
      kubectl apply --server-side -f crds/
      kubectl create namespace spotrun-system
      spotrun operator --advertise 192.0.2.7:8443

  in a pod, for all namespaces; agents connect to a Service in front of all replicas:
      SPOTRUN_ADVERTISE=spotrun-agents.spotrun-system.svc:8443 spotrun operator

  for one namespace, with the rights of manifests/rbac-namespaced.yaml:
      spotrun operator --watch-namespace ml --advertise 192.0.2.7:8443

Several replicas may run: one leads, the others stand by. While the API server does not answer, or
permissions or CRDs are missing, the operator says so in its log, waits, and then continues. SIGTERM
ends it in order, a second SIGTERM at once. Exit codes: 0 it was told to end, 1 it failed, 2 the
flags are wrong.
"""


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the flags to a parser."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.usage = f"{parser.prog} [--advertise HOST:PORT] [flags]"
    add_options(parser, (one.name for one in fields(Options)))
    parser.add_argument(
        "-v",
        "--verbose",
        dest="log_level",
        action="store_const",
        const="debug",
        help="the same as --log-level debug",
    )


def add_options(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """Add the flags of some options; the others count as not given."""
    by_name = {one.name: one for one in fields(Options)}
    parser.set_defaults(**dict.fromkeys(by_name))
    for name in names:
        one = by_name[name]
        default = f" (default: {one.default})" if one.default else ""
        may_stand_alone = isinstance(one.default, bool)
        parser.add_argument(
            flag(one.name),
            dest=one.name,
            nargs="?" if may_stand_alone else None,
            const="true" if may_stand_alone else None,
            metavar=one.metadata["metavar"],
            help=f"{one.metadata['help']}{default} [{variable(one.name)}]",
        )
