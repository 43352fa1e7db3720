"""The common part of the command lines. Standard library only: there are no dependencies."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

Prepare = Callable[[argparse.Namespace], Callable[[], int]]
"""Reads the flags; raises ValueError that says what is wrong with them."""

_INTERRUPTED = 130
"""The exit code that shells give to a program that Ctrl-C has ended."""
_UNREAD = 141
"""The exit code that shells give to a program that SIGPIPE has ended: the reader of its output has
closed it."""


class CommandLine:
    """A command line of one or more commands."""

    def __init__(self, prog: str, description: str, *, extra: str = "operator") -> None:
        self._extra = extra  # the distribution's extra that the commands need
        # No abbreviations: a flag that is added later could change their meaning.
        self._parser = argparse.ArgumentParser(
            prog=prog, description=description, allow_abbrev=False
        )
        self._parser.add_argument(
            "--version", action="version", version=f"spotrun {version('spotrun')}"
        )
        self._choices = self._parser.add_subparsers(
            dest="command", metavar="COMMAND", required=True
        )
        self._commands: dict[str, tuple[argparse.ArgumentParser, Prepare]] = {}
        self._takers: set[str] = set()
        self._others: dict[str, Callable[[Sequence[str]], int]] = {}

    def add(
        self, name: str, text: str, prepare: Prepare, *, takes_arguments: bool = False
    ) -> argparse.ArgumentParser:
        """Add a command; the caller adds its flags.

        A command that takes arguments gets what follows `--` as `after_dashes`, not parsed.
        """
        added = self._choices.add_parser(
            name, help=text, description=f"{text[:1].upper()}{text[1:]}.", allow_abbrev=False
        )
        self._commands[name] = added, prepare
        if takes_arguments:
            self._takers.add(name)
        return added

    def hand_over(self, name: str, text: str, run: Callable[[Sequence[str]], int]) -> None:
        """Add a command that parses all arguments itself, its own name and --help included."""
        self._choices.add_parser(name, help=text, add_help=False)
        self._others[name] = run

    def run(self, argv: Sequence[str] | None) -> int:
        """Run the chosen command; returns its exit code, or exits if the usage was wrong."""
        try:
            try:
                code = self._run(argv)
            except SystemExit:  # also after --help, which has printed its text
                _write_out()
                raise
            _write_out()
        except BrokenPipeError:
            _write_no_more()
            return _UNREAD
        return code

    def _run(self, argv: Sequence[str] | None) -> int:
        given = sys.argv[1:] if argv is None else argv
        if given and given[0] in self._others:
            return self._others[given[0]](given)
        dashes = given.index("--") if given and given[0] in self._takers and "--" in given else None
        chosen, rest = self._parser.parse_known_args(given[:dashes])
        chosen.after_dashes = given[dashes + 1 :] if dashes is not None else []
        parser, prepare = self._commands[chosen.command]
        if rest:
            parser.error(
                f"unrecognized arguments: {' '.join(rest)}; `{parser.prog} --help` lists all"
            )
        try:
            return _prepared(parser, prepare, chosen, self._extra)()
        except KeyboardInterrupt:
            print(f"\n{parser.prog}: interrupted before its end", file=sys.stderr)
            return _INTERRUPTED


def _write_out() -> None:
    """Flush the output while its errors can still be caught; skip a stream that is closed."""
    if sys.stdout is not None:
        sys.stdout.flush()


def _write_no_more() -> None:
    """Drop the rest of the output: Python would write it again at its exit, and print an error."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _prepared(
    parser: argparse.ArgumentParser, prepare: Prepare, chosen: argparse.Namespace, extra: str
) -> Callable[[], int]:
    """Return the function that runs a command; ends the process if the usage was wrong."""
    # Libraries are imported only here: agents' images have the console scripts without libraries.
    try:
        return prepare(chosen)
    except ValueError as error:
        parser.error(str(error))
    except ModuleNotFoundError as error:
        parser.error(f"libraries are not installed ({error}): pip install 'spotrun[{extra}]'")
