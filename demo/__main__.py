"""`python -m demo`: a TrainingJob on this machine loses two of its nodes and continues."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from demo.claim import ClaimError, end
from devcluster.argument_types import existing_folder, how_many, writable_file

INTERRUPTED = 130
_STEPS_PER_CORE = 300
_MOST_CORES = 5  # three workers, the control plane and the operator
ROOT = Path(__file__).parents[1]
_PID_FILE = Path(".devcluster/demo.pid")

_EPILOG = """\
What you see is real: etcd, kube-apiserver, scheduler and controller manager as processes of yours,
the operator as a process with the rights of manifests/rbac.yaml, and torchrun training a small
model in the pods. What is played: nodes are a kubelet that runs pods as local processes, the spot
notice is written as Karpenter writes it, and prices are made up.

examples:
  make demo                      python -m demo
  make demo KEEP=1               python -m demo --keep     then look around with kubectl
  make demo-down                 python -m demo --down     ends it, from any folder
  make demo S3=1                 python -m demo --s3       checkpoints in a bucket, no volume
  make demo RECORD=demo.svg      python -m demo --record demo.svg

The first run compiles Kubernetes, about 7 minutes on two cores; then it takes under two minutes.
Ctrl-C ends it at any moment and leaves nothing behind. Exit codes: 0 the job succeeded although it
lost its nodes, 1 it did not, 2 wrong usage, 130 interrupted.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit code."""
    # Even if it was ignored before, as in the background of a script.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _as_ctrl_c)
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.down:
        return _down(given.pid_file)
    try:
        return _play(parser, given)
    except KeyboardInterrupt:
        print("demo: interrupted; nothing was left running", file=sys.stderr)
        return INTERRUPTED


def _play(parser: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    """Check the options before anything starts, then run the demo."""
    # Imported late, so that help is fast, and Ctrl-C works while libraries are loaded.
    from demo import command  # noqa: PLC0415
    from demo.job import Local, load  # noqa: PLC0415

    try:
        job = load(given.job, Local(given.scripts.resolve(), given.steps))
    except ValueError as error:
        parser.error(str(error))
    chosen = command.Options(
        job, keep=given.keep, plain=given.plain, record=given.record, s3=given.s3
    )
    return command.run(chosen, given.pid_file)


def _down(pid_file: Path) -> int:
    try:
        ended = end(pid_file)
    except ClaimError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    print("demo: ended, and nothing was left running" if ended else "demo: none runs")
    return 0


def _as_ctrl_c(_number: int, _frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)


def _usual_steps() -> int:
    """Return enough steps to last longer than the start of a worker, even on many cores."""
    return _STEPS_PER_CORE * min(os.cpu_count() or 1, _MOST_CORES)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m demo",
        description="A real TrainingJob loses two of its three nodes, one with a spot notice and "
        "one without a notice, and continues to its end. Needs no root, no Docker and no GPU.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave everything up afterwards, until Ctrl-C or --down"
    )
    parser.add_argument("--down", action="store_true", help="end the demo that runs, then return")
    parser.add_argument(
        "--plain", action="store_true", help="lines with times also where there is a terminal"
    )
    parser.add_argument(
        "--record",
        type=writable_file,
        metavar="FILE",
        help="besides, write the demo to FILE at its end, as an SVG that plays it in half a minute",
    )
    parser.add_argument(
        "--s3",
        action="store_true",
        help="keep checkpoints in an S3 server (versitygw) on this machine, and not on a volume",
    )
    parser.add_argument(
        "--job",
        type=Path,
        default=ROOT / "examples/tiny-lm.yaml",
        metavar="FILE",
        help="another TrainingJob to put through the same (default examples/tiny-lm.yaml)",
    )
    parser.add_argument(
        "--scripts",
        type=existing_folder,
        default=ROOT / "trainer_image",
        metavar="DIR",
        help="where the job's scripts lie: its working directory (default trainer_image)",
    )
    parser.add_argument(
        "--steps",
        type=how_many,
        default=_usual_steps(),
        metavar="N",
        help="steps of a job that takes --steps=N (default %(default)s, for this machine's cores)",
    )
    parser.add_argument("--pid-file", type=Path, default=_PID_FILE, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
