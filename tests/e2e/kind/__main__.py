"""The cluster of the end-to-end tests: `up` to look around in, `down`, and `ready`.

`ready` ends with 0 where `up` takes minutes, and else says why it would not.
"""

import argparse
import sys
import time

from devcluster.binaries import BuildError
from tests.e2e.kind.cluster import KUBECONFIG, Kind, find_kind
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
            return 0
        if command == "ready":
            return _ready(kind)
        kind.up()
    except (SetupError, BuildError) as error:
        print(f"e2e: {error}", file=sys.stderr)
        return 1
    tell("it is up")
    print(f"export KUBECONFIG={KUBECONFIG}")
    return 0


def _ready(kind: Kind) -> int:
    if kind.is_warm():
        return 0
    print(
        "e2e: images and programs are not made yet, which takes a quarter of an hour: `make e2e`",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
