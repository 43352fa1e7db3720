"""What the command lines share. Standard library only: the distribution has no dependencies."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version

NOT_BUILT_YET = 2
"""Exit code of a command that is announced but not there: a usage error, as argparse's own."""


class CommandLine:
    """A command line of several commands, some of them still to be built."""

    def __init__(
        self, prog: str, description: str, planned: Mapping[str, str] | None = None
    ) -> None:
        """`planned` maps the name of each command that is to come to what it will do."""
        # A flag that is cut short would mean another one as soon as there are more.
        self.parser = argparse.ArgumentParser(
            prog=prog, description=description, allow_abbrev=False
        )
        self.parser.add_argument(
            "--version", action="version", version=f"spotrun {version('spotrun')}"
        )
        self._choices = self.parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
        self._commands: dict[str, argparse.ArgumentParser] = {}
        self._planned = planned or {}

    def add(self, name: str, text: str) -> argparse.ArgumentParser:
        """Announce a command that is there."""
        added = self._choices.add_parser(
            name, help=text, description=f"{text.capitalize()}.", allow_abbrev=False
        )
        self._commands[name] = added
        return added

    def read(self, argv: Sequence[str] | None) -> argparse.Namespace | None:
        """What was asked for; None, and a word on standard error, if it is still to be built."""
        for name, text in self._planned.items():
            self._choices.add_parser(
                name, help=f"{text} (not built yet)", description=f"Not built yet: {text}."
            )
        chosen, rest = self.parser.parse_known_args(argv)
        if chosen.command not in self._planned:
            if rest:
                command = self._commands[chosen.command]
                command.error(
                    f"unrecognized arguments: {' '.join(rest)}; `{command.prog} --help` has all"
                )
            return chosen
        # Options of a command that is not there are not wrong: the answer is the same with them.
        print(
            f"{self.parser.prog} {chosen.command}: not built yet. What there is today are the "
            "operator (`spotrun operator --help`), the resource definitions (`kubectl apply "
            "--server-side -f crds/`) and a test cluster to try them on (`make cluster-up`).",
            file=sys.stderr,
        )
        return None
