"""The command lines `spotrun checkpoints` and `spotrun export`.

In an image without the console script use `python -m spotrun_trainer`.
"""

from argparse import (
    ArgumentParser,
    Namespace,
    RawDescriptionHelpFormatter,
    _SubParsersAction,
)
from collections.abc import Callable, Sequence

from spotrun_trainer.checkpoint.errors import (
    CheckpointError,
    DamagedCheckpointError,
    UnreadableCheckpointError,
)
from spotrun_trainer.checkpoint.tools import command, export, export_flags
from spotrun_trainer.process.commands.running import run

_EXPECTED = (
    ValueError,
    OSError,
    CheckpointError,
    DamagedCheckpointError,
    UnreadableCheckpointError,
)
_Add = Callable[[str, Callable[[Namespace], int], str], ArgumentParser]

_CHECKPOINT = "a checkpoint, FOLDER/step-N.gG, or a folder: its newest complete checkpoint"

_ABOUT = """\
Look at the checkpoints of a training, wherever their folder is mounted: no cluster and no GPU is
needed. Only `rm` changes anything, so the other commands are safe while a training runs."""

_EXAMPLES = """\
examples:
  list all checkpoints, and whether they are complete, by lengths and manifests:
      spotrun checkpoints ls checkpoints/

  verify all content by hashes; the exit code says whether it is intact:
      spotrun checkpoints verify checkpoints/

  show the tensors of the newest checkpoint, and those that a later step has changed:
      spotrun checkpoints show checkpoints/
      spotrun checkpoints diff checkpoints/step-500.g1 checkpoints/step-600.g1

Exit codes: 0 done, and the answer is yes; 1 the answer is no: damaged, incomplete, different, not
confirmed; 2 the arguments are wrong, or something cannot be read or written.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; exits if the usage was wrong."""
    return run(_parser().parse_args(argv), _EXPECTED)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="spotrun", allow_abbrev=False)
    choices = parser.add_subparsers(metavar="COMMAND", required=True)
    checkpoints = choices.add_parser(
        "checkpoints",
        help="list, show, verify, compare and remove checkpoints",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verbs = checkpoints.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, run: Callable[[Namespace], int], text: str) -> ArgumentParser:
        about = f"{text[0].upper()}{text[1:]}."
        added: ArgumentParser = verbs.add_parser(
            name, help=text, description=about, allow_abbrev=False
        )
        added.set_defaults(run=run, prog=added.prog)
        return added

    _describe_looks(add)
    _describe_export(choices)
    _describe_rm(add("rm", command.run_rm, "remove checkpoints that are not needed any more"))
    return parser


def _describe_export(choices: "_SubParsersAction[ArgumentParser]") -> None:
    parser = choices.add_parser(
        "export",
        help="write the model of a checkpoint in a format that other programs read",
        description=export_flags.ABOUT,
        epilog=export_flags.EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    export_flags.describe(parser)
    parser.set_defaults(run=export.run_export, prog=parser.prog)


def _describe_looks(add: _Add) -> None:
    ls = add("ls", command.run_ls, "list the checkpoints of a folder, oldest first")
    ls.add_argument("folder", help="the folder that Run(checkpoint=...) names")
    show = add(
        "show",
        command.run_show,
        "show what is in a checkpoint, without reading the tensors' content",
    )
    show.add_argument("checkpoint", help=_CHECKPOINT)
    verify = add("verify", command.run_verify, "compare the hashes of all files")
    verify.add_argument("checkpoint", help="a checkpoint, FOLDER/step-N.gG, or a folder: all in it")
    diff = add(
        "diff", command.run_diff, "show the tensors and values that two checkpoints differ in"
    )
    diff.add_argument("first", help=_CHECKPOINT)
    diff.add_argument("second", help=_CHECKPOINT)
    for parser in (ls, show, diff):
        parser.add_argument(
            "-o", "--output", choices=("table", "json"), default="table", help="default: table"
        )


def _describe_rm(parser: ArgumentParser) -> None:
    parser.add_argument(
        "checkpoint", nargs="+", help="FOLDER/step-N.gG; the newest complete one stays"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="also remove the newest complete one, and one that a training may be writing",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
