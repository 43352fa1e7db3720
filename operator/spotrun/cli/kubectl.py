"""`kubectl tjob`: kubectl runs the console script `kubectl-tjob`, found on PATH, as a plugin."""

import sys
from collections.abc import Sequence

from spotrun.cli.console import NOT_BUILT_YET, CommandLine

_PLANNED = {
    "estimate": "the range of cost and finish time to expect of a job, from recorded markets"
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the plugin and return its exit code."""
    line = CommandLine(
        "kubectl tjob", "Work with TrainingJobs beyond what kubectl itself can do.", _PLANNED
    )
    line.read(argv)
    return NOT_BUILT_YET


if __name__ == "__main__":
    sys.exit(main())
