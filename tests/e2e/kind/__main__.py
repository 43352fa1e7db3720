"""The cluster of the end-to-end tests: `up` to look around in, `down`, and `ready`.

`ready` ends with 0 where `up` takes minutes, and else says why it would take more, or fail.
"""

import argparse
import sys
import time

from devcluster.binaries import BuildError
from tests.e2e.kind.cluster import KUBECONFIG, find_kind
from tests.e2e.kind.machine import SetupError


def main() -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.kind", description=__doc__)
    parser.add_argument("command", choices=["up", "down", "ready"])
    started = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - started:5.0f} s  {line}", file=sys.stderr, flush=True)

    command = parser.parse_args().command
    try:
        kind = find_kind(tell)
        if command == "down":
            kind.down()
        elif command == "ready":
            kind.require_warm()
        else:
            kind.up()
            tell("it is up")
            print(f"export KUBECONFIG={KUBECONFIG}")
    except (SetupError, BuildError) as error:
        print(f"e2e: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
