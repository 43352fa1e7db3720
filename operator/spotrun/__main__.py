"""The console script `spotrun`: the operator's process, and tools that need no cluster."""

import sys
from collections.abc import Sequence

from spotrun import options
from spotrun.cli import flags
from spotrun.cli.console import NOT_BUILT_YET, CommandLine

_PLANNED = {"simulate": "replay a job on a recorded market and print its cost as JSON"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    line = CommandLine(
        "spotrun", "Spot-aware, auto-scaling PyTorch training on Kubernetes.", _PLANNED
    )
    operator = line.add("operator", "run the operator")
    flags.describe(operator)
    chosen = line.read(argv)
    if chosen is None:
        return NOT_BUILT_YET
    try:
        told = options.read(chosen)
    except ValueError as error:
        operator.error(str(error))
    # Only here: agents' images have this console script, too, and none of its libraries.
    try:
        from spotrun.cli.operate import run  # noqa: PLC0415
    except ModuleNotFoundError as error:
        operator.error(
            f"its libraries are not installed ({error}): pip install 'spotrun[operator]'"
        )
    return run(told)


if __name__ == "__main__":
    sys.exit(main())
