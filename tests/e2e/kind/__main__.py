"""`python -m tests.e2e.kind up|down`: the cluster of the end-to-end tests, to look around in."""

import argparse
import sys
import time

from devcluster.binaries import BuildError
from tests.e2e.kind.cluster import KUBECONFIG, find_kind
from tests.e2e.kind.machine import SetupError


def main() -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.kind", description=__doc__)
    parser.add_argument("command", choices=["up", "down"])
    started = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - started:5.0f} s  {line}", file=sys.stderr, flush=True)

    command = parser.parse_args().command
    try:
        kind = find_kind(tell)
        if command == "down":
            kind.down()
            return 0
        kind.up()
    except (SetupError, BuildError) as error:
        print(f"e2e: {error}", file=sys.stderr)
        return 1
    tell("it is up")
    print(f"export KUBECONFIG={KUBECONFIG}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
