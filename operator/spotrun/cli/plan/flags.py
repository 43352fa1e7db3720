"""The flags of `kubectl tjob plan` on its command line, and their help.

Standard library only: help answers at once, and also if nothing else is installed.
"""

import argparse

from spotrun.cli.text import numbers

_EXAMPLES = """\
examples:
  which machines can hold the model of train.py, run with the arguments of the job's container:
      kubectl tjob plan -f job.yaml --script train.py

  the same without PyTorch on this machine: measured in the job's image, then read here
      docker run --rm IMAGE python -m spotrun_trainer.loop.memory train.py > needs.json
      kubectl tjob plan --needs needs.json

  if you know that your GPUs reach half of their speed:
      kubectl tjob plan -f job.yaml --script train.py --utilization 0.5

The script runs up to its first step, in a process of its own, on tensors that have a shape and no
content: nothing is computed, no GPU is needed, and a model may be larger than this machine. The
output says which figures are measured, derived or assumed; docs/which-parallelism.md explains them.
Exit codes: 0 the plan was made, 2 the flags are wrong or the script cannot be planned.
"""


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the flags to a parser."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.usage = f"{parser.prog} ([-f FILE] --script SCRIPT | --needs FILE) [flags]"
    parser.add_argument(
        "-f",
        "--filename",
        metavar="FILE",
        help="a TrainingJob; the script gets its container's arguments; -: standard input",
    )
    parser.add_argument("--script", metavar="SCRIPT", help="the training script; it uses Run")
    parser.add_argument(
        "--needs", metavar="FILE", help="a file of measured needs, instead of --script"
    )
    parser.add_argument(
        "--timeout",
        type=numbers.minutes,
        default=10.0,
        metavar="MINUTES",
        help="stop --script if its first step is not reached in this time (default: 10)",
    )
    parser.add_argument(
        "--usable",
        type=numbers.share,
        default=0.9,
        metavar="SHARE",
        help="share of a GPU's memory; the rest is for CUDA, NCCL and fragments (default: 0.9)",
    )
    parser.add_argument(
        "--utilization",
        type=numbers.share,
        default=0.4,
        metavar="SHARE",
        help="share of a GPU's 16-bit speed, for the dollars per 1e9 targets (default: 0.4)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, not a table")
