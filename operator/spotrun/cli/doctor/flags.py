"""The flags of `kubectl tjob doctor` on its command line, and their help.

Standard library only: help answers at once, and also if nothing else is installed.
"""

import argparse

from spotrun.cli.cluster import flags
from spotrun.cli.text import numbers

_EXAMPLES = """\
  check the installation: CRDs, operator, versions, your rights, prices; says how to fix each:
      kubectl tjob doctor

  check a job for the usual mistakes:
      kubectl tjob doctor gpt

  how a change of size changes the batches of a job, and how to keep them; asks no cluster:
      kubectl tjob doctor -f job.yaml

  the sizes that divide a global batch of 256 samples:
      kubectl get trainingjob gpt -o yaml | kubectl tjob doctor -f - --batch 256

Exit codes with -f: 0 nothing needs to be changed, 1 a change is proposed.
"""


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the flags to a parser."""
    flags.describe(parser, _EXAMPLES, "[NAME | -f FILE [--batch SAMPLES] [--processes N]]")
    parser.add_argument("name", nargs="?", metavar="NAME", help="a TrainingJob of the cluster")
    flags.add_output(parser, ("json", "yaml"))
    parser.add_argument("-f", "--filename", metavar="FILE", help="a TrainingJob; -: standard input")
    parser.add_argument(
        "--batch",
        type=numbers.count,
        metavar="SAMPLES",
        help="samples per step of all processes together, if the script divides them",
    )
    parser.add_argument(
        "--processes",
        type=numbers.count,
        metavar="N",
        help="processes per worker (default: workers.processes, else its GPUs, else 1)",
    )
