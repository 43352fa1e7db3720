"""`kubectl tjob`: kubectl runs the console script `kubectl-tjob`, found on PATH, as a plugin."""

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial

from spotrun.cli import estimate_flags, plan_flags
from spotrun.cli.console import CommandLine
from spotrun.cli.doctor import flags as doctor_flags


def main(argv: Sequence[str] | None = None) -> int:
    """Run the plugin and return its exit code."""
    line = CommandLine("kubectl tjob", "Work with TrainingJobs beyond what kubectl itself can do.")
    estimate_flags.describe(
        line.add(
            "estimate",
            "the range of cost and finish time to expect of a job, from recorded markets",
            _prepare_estimate,
        )
    )
    plan_flags.describe(
        line.add(
            "plan",
            "the memory that a training script needs, and the machines that have it",
            _prepare_plan,
        )
    )
    doctor_flags.describe(
        line.add(
            "doctor",
            "what a change of size does to a job's batches, and what to write instead",
            _prepare_doctor,
        )
    )
    return line.run(argv)


def _prepare_estimate(chosen: Namespace) -> Callable[[], int]:
    from spotrun.simulate.estimate.command import run, understand  # noqa: PLC0415

    return partial(run, understand(chosen))


def _prepare_plan(chosen: Namespace) -> Callable[[], int]:
    from spotrun.cli.plan.command import run, understand  # noqa: PLC0415

    return partial(run, understand(chosen))


def _prepare_doctor(chosen: Namespace) -> Callable[[], int]:
    from spotrun.cli.doctor.command import run, understand  # noqa: PLC0415

    return partial(run, understand(chosen))


if __name__ == "__main__":
    sys.exit(main())
