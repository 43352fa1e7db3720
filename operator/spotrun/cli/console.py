"""What the command lines share. Standard library only: the distribution has no dependencies."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version

NOT_BUILT_YET = 2
"""Exit code of a command that is announced but not there: a usage error, as argparse's own."""


def planned(
    prog: str, description: str, commands: Mapping[str, str], argv: Sequence[str] | None
) -> int:
    """Serve a command line whose commands are all still to be built: say so, and fail.

    `commands` maps each name to what it will do.
    """
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--version", action="version", version=f"spotrun {version('spotrun')}")
    choices = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in commands.items():
        choices.add_parser(
            name, help=f"{text} (not built yet)", description=f"Not built yet: {text}."
        )
    # Options of a command that is not there are not wrong: the answer is the same with them.
    chosen, _ = parser.parse_known_args(argv)
    print(
        f"{prog} {chosen.command}: not built yet. What there is today are the resource definitions "
        "(`kubectl apply -f crds/`) and a test cluster to try them on (`make cluster-up`).",
        file=sys.stderr,
    )
    return NOT_BUILT_YET
