"""The commands of `spotrun` that the trainer has: they need PyTorch, and nothing of the operator.

Trainer and operator do not import each other. So the trainer declares its commands as entry points
of their common distribution, and the console script looks them up.
"""

import sys
from collections.abc import Sequence
from importlib.metadata import entry_points

COMMANDS = {
    "checkpoints": "list, show, verify, compare and remove checkpoints",
    "data": "make shards of tokens from texts, and manifests of existing data",
    "export": "write the model of a checkpoint in a format that other programs read",
}
_GROUP = "spotrun.commands"


def run(argv: Sequence[str]) -> int:
    """Run the command that the arguments begin with, and return its exit code."""
    (found,) = entry_points(group=_GROUP, name=argv[0])
    try:
        main = found.load()
    except ModuleNotFoundError as error:
        print(
            f"spotrun {argv[0]}: libraries are not installed ({error}): "
            "pip install 'spotrun[trainer]'",
            file=sys.stderr,
        )
        return 2
    code: int = main(argv)
    return code
