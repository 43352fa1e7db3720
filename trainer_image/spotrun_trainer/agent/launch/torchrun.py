"""torchrun in this process; another one imports meanwhile what the worker's script imports."""

import os
import sys
from collections.abc import Callable, Sequence

from spotrun_trainer.agent.processes.environment import prepare
from spotrun_trainer.agent.processes.warm.collector import keep_all, no_collections
from spotrun_trainer.agent.processes.warm.early import begin_early, runs_one_script


def main() -> None:
    """Run torchrun with this process's arguments, as its own command does."""
    torchrun = load(sys.argv[1:])
    sys.argv[0] = "torchrun"  # the name in argparse's messages and in process titles
    torchrun(sys.argv[1:])


def load(arguments: Sequence[str]) -> Callable[[Sequence[str]], None]:
    """Return torchrun's own main; raises ImportError or OSError if torch cannot be imported."""
    if "SPOTRUN_DIR" in os.environ and runs_one_script(arguments):
        prepare(os.environ)
        begin_early(os.environ)
    with no_collections():
        from torch.distributed.run import main as torchrun  # noqa: PLC0415 - it takes a second

        keep_all()
    return torchrun
