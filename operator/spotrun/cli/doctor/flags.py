"""The flags of `kubectl tjob doctor` on its command line, and their help.

Standard library only: help answers at once, and also if nothing else is installed.
"""

import argparse

from spotrun.cli import numbers

_EXAMPLES = """\
examples:
  what a change of size does to the batches of a job, and how to hold them:
      kubectl tjob doctor -f job.yaml

  the sizes that divide a global batch of 256 samples:
      kubectl get trainingjob gpt -o yaml | kubectl tjob doctor -f - --batch 256

No cluster is asked. Exit codes: 0 nothing needs to be changed, 1 a change is proposed, 2 the flags
or the job are wrong.
"""


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the flags to a parser."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.usage = f"{parser.prog} -f FILE [--batch SAMPLES] [--processes N]"
    parser.add_argument(
        "-f", "--filename", required=True, metavar="FILE", help="a TrainingJob; -: standard input"
    )
    parser.add_argument(
        "--batch",
        type=numbers.count,
        metavar="SAMPLES",
        help="samples of a step, of all processes together, where the script divides them",
    )
    parser.add_argument(
        "--processes",
        type=numbers.count,
        metavar="N",
        help="of a worker (default: workers.processes, else its GPUs, else 1)",
    )
