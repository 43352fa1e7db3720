"""The console script `spotrun`: the operator's process, and tools that need no cluster."""

import sys
from collections.abc import Sequence

from spotrun.cli import console


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    return console.planned(
        "spotrun",
        "Spot-aware, auto-scaling PyTorch training on Kubernetes.",
        {
            "operator": "run the operator",
            "simulate": "replay a job on a recorded market and print its cost as JSON",
        },
        argv,
    )


if __name__ == "__main__":
    sys.exit(main())
