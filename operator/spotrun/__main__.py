"""The console script `spotrun`: the operator's process, and tools that need no cluster."""

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial

from spotrun.cli.console import CommandLine
from spotrun.cli.operator_process import cleanup_flags
from spotrun.cli.operator_process import flags as operator_flags
from spotrun.cli.operator_process.quick_imports import quick_imports
from spotrun.cli.page import flags as page_flags
from spotrun.cli.replay import simulate_flags
from spotrun.cli.text import trainer_commands
from spotrun.runtime import options


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    line = CommandLine("spotrun", "Spot-aware, auto-scaling PyTorch training on Kubernetes.")
    operator_flags.describe(line.add("operator", "run the operator", _prepare_operator))
    simulate_flags.describe(
        line.add(
            "simulate", "replay a job on recorded markets and print what it costs", _prepare_replay
        )
    )
    cleanup_flags.describe(
        line.add(
            "cleanup",
            "remove the operator's finalizers, before or after the operator is removed",
            _prepare_cleanup,
        )
    )
    page_flags.describe(
        line.add("ui", "a page in your browser, as `kubectl tjob ui` opens it", _prepare_page)
    )
    page_flags.describe_served(
        line.add("page", "serve the page behind a cluster's authentication", _prepare_served)
    )
    for name, text in trainer_commands.COMMANDS.items():
        line.hand_over(name, text, trainer_commands.run)
    return line.run(argv)


def _prepare_operator(chosen: Namespace) -> Callable[[], int]:
    given = options.read(chosen)
    with quick_imports():
        from spotrun.cli.operator_process.command import run  # noqa: PLC0415

    return partial(run, given)


def _prepare_replay(chosen: Namespace) -> Callable[[], int]:
    from spotrun.simulate.command import run, understand  # noqa: PLC0415

    return partial(run, understand(chosen))


def _prepare_cleanup(chosen: Namespace) -> Callable[[], int]:
    given = options.read(chosen)
    from spotrun.cli.operator_process.cleanup import run  # noqa: PLC0415

    return partial(run, given, chosen.stop_deployment)


def _prepare_page(chosen: Namespace) -> Callable[[], int]:
    from spotrun.cli.page.command import run  # noqa: PLC0415

    return partial(run, chosen)


def _prepare_served(chosen: Namespace) -> Callable[[], int]:
    from spotrun.cli.page.command import serve  # noqa: PLC0415

    return partial(serve, chosen)


if __name__ == "__main__":
    sys.exit(main())
