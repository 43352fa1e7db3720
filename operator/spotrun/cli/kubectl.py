"""`kubectl tjob`: kubectl runs the console script `kubectl-tjob`, found on PATH, as a plugin."""

import sys
from collections.abc import Sequence

from spotrun.cli import console


def main(argv: Sequence[str] | None = None) -> int:
    """Run the plugin and return its exit code."""
    return console.planned(
        "kubectl tjob",
        "Work with TrainingJobs beyond what kubectl itself can do.",
        {"estimate": "the range of cost and finish time to expect of a job, from recorded markets"},
        argv,
    )


if __name__ == "__main__":
    sys.exit(main())
