"""The run of a command: signals, its exit code, and the message for an error."""

import os
import signal
import sys
from argparse import Namespace
from pathlib import Path

FAILED = 2
"""The exit code of a command that could not find out, or do, what the user asked for."""
_INTERRUPTED, _UNREAD = 130, 141
"""The exit codes that shells give to a program that Ctrl-C has ended, and to one whose output
nobody reads."""


def run(chosen: Namespace, expected: tuple[type[Exception], ...]) -> int:
    """Run a parsed command and return its exit code; `expected` errors are printed in one line."""
    # `kubectl delete pod` ends a command as Ctrl-C does: nothing unfinished stays behind.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code: int = chosen.run(chosen)
        sys.stdout.flush()
    except BrokenPipeError:
        _write_no_more()
        return _UNREAD
    except expected as error:
        print(f"{chosen.prog}: {_reason(error)}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print(f"\n{chosen.prog}: interrupted before its end", file=sys.stderr)
        return _INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    return code


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'a file'}: {error.strerror.lower()}"
    return str(error)


def _write_no_more() -> None:
    """Drop the rest of the output: Python would write it again at its end, and print an error."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
