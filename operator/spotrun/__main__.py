"""The console script `spotrun`: the operator's process, and tools that need no cluster."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from functools import partial

from spotrun import options
from spotrun.cli import cleanup_flags, flags, simulate
from spotrun.cli.console import NOT_BUILT_YET, CommandLine

_Prepare = Callable[[Namespace], Callable[[], int]]

_INTERRUPTED = 130
"""As a shell says it of what Ctrl-C has ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    line = CommandLine("spotrun", "Spot-aware, auto-scaling PyTorch training on Kubernetes.")
    operator = line.add("operator", "run the operator")
    flags.describe(operator)
    simulation = line.add("simulate", "replay a job on recorded markets and print what it costs")
    simulate.describe(simulation)
    cleaning = line.add("cleanup", "let go of all pods, before or after the operator is removed")
    cleanup_flags.describe(cleaning)
    chosen = line.read(argv)
    if chosen is None:
        return NOT_BUILT_YET
    parser, prepare = {
        "operator": (operator, _prepare_operator),
        "simulate": (simulation, _prepare_simulation),
        "cleanup": (cleaning, _prepare_cleanup),
    }[chosen.command]
    try:
        return _prepared(parser, prepare, chosen)()
    except KeyboardInterrupt:
        print(f"\nspotrun {chosen.command}: interrupted before its end", file=sys.stderr)
        return _INTERRUPTED


def _prepared(parser: ArgumentParser, prepare: _Prepare, chosen: Namespace) -> Callable[[], int]:
    """What runs a command; ends the process where it was asked for wrongly."""
    # Only here: agents' images have this console script, too, and none of its libraries.
    try:
        return prepare(chosen)
    except ValueError as error:
        parser.error(str(error))
    except ModuleNotFoundError as error:
        parser.error(f"its libraries are not installed ({error}): pip install 'spotrun[operator]'")


def _prepare_operator(chosen: Namespace) -> Callable[[], int]:
    told = options.read(chosen)
    from spotrun.cli.operate import run  # noqa: PLC0415

    return partial(run, told)


def _prepare_simulation(chosen: Namespace) -> Callable[[], int]:
    from spotrun.simulate.command import run, understand  # noqa: PLC0415

    return partial(run, understand(chosen))


def _prepare_cleanup(chosen: Namespace) -> Callable[[], int]:
    told = options.read(chosen)
    from spotrun.cli.cleanup import run  # noqa: PLC0415

    return partial(run, told, chosen.stop_deployment)


if __name__ == "__main__":
    sys.exit(main())
