"""The reason why a training process ended: an uncaught exception, cut to the essentials."""

import json
import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from traceback import FrameSummary
from types import TracebackType

from spotrun_trainer.telemetry.out_of_memory import advice_on, is_out_of_memory
from spotrun_trainer.telemetry.reporter import Reporter

NOTE_CHARACTERS = 1_000
"""The characters of a report's message that remain beside the rank and the exit code."""
_SAYING_CHARACTERS = 700
_CAUSE_CHARACTERS = 150
_LIBRARIES = ("site-packages", "dist-packages")
_STANDARD = Path(os.__file__).parent
_OURS = Path(__file__).parents[1]


def install_failure_note(reporter: Reporter) -> None:
    """Report the exception that ends this process, from now on; the traceback is still printed.

    A process that is killed leaves no note. Nor do processes that this one forks: their important
    errors are raised again in this one.
    """
    before, pid = sys.excepthook, os.getpid()

    def note(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if os.getpid() == pid:
            text = failure_note(error)
            reporter.update(failure=text)
            _tell_torchrun(text)
        before(kind, error, trace)

    sys.excepthook = note


def failure_note(error: BaseException) -> str:
    """Return what happened, then where, from the innermost call on; library calls are summarized.

    The exception comes first, because a reader sees a column of `kubectl get` before the whole
    text.
    """
    said, advice = _said(error), advice_on(error) if is_out_of_memory(error) else ""
    if advice:  # which must not be cut
        said = _cut_inside(said.replace(f"\n{advice}", ""), _SAYING_CHARACTERS // 2)
    said = _cut_inside(said, _SAYING_CHARACTERS)
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    lines = [said]
    if cause is not None:
        lines.append(f"  after {_cut_inside(_said(cause), _CAUSE_CHARACTERS)}")
    if advice:
        lines.append(f"  {advice}")
    room = NOTE_CHARACTERS - len("\n".join(lines))
    for line in _calls(error):
        room -= len(line) + 1
        if room < len("\n  ..."):
            lines.append("  ...")
            break
        lines.append(line)
    return "\n".join(lines)


def _calls(error: BaseException) -> Iterator[str]:
    frames = reversed(traceback.extract_tb(error.__traceback__))
    for owner, calls in groupby(frames, key=_owner):
        if owner:
            yield f"  in {owner}"
        else:
            yield from (_shown(call) for call in calls)


def _owner(frame: FrameSummary) -> str | None:
    """Return the library that a frame belongs to; None for the user's own code."""
    path = Path(frame.filename)
    if path.is_relative_to(_OURS):
        return _OURS.name
    for libraries in _LIBRARIES:
        if libraries in path.parts:
            return path.parts[path.parts.index(libraries) + 1].removesuffix(".py")
    return "Python" if path.is_relative_to(_STANDARD) or not path.is_absolute() else None


def _shown(frame: FrameSummary) -> str:
    path = Path(frame.filename)
    with suppress(ValueError, OSError):  # a file elsewhere, or no working directory
        path = path.relative_to(Path.cwd())
    name = "/".join(path.parts[-2:])
    return f"  at {name}:{frame.lineno} in {frame.name}: {_cut_inside(frame.line or '', 100)}"


def _said(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


def _cut_inside(text: str, characters: int) -> str:
    if len(text) <= characters:
        return text
    half = (characters - len(" ... ")) // 2
    return f"{text[:half]} ... {text[-half:]}"


def _tell_torchrun(text: str) -> None:
    """Write torchrun's error file, as torch's @record does for scripts that use it."""
    name = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not name:
        return
    message = {"message": text, "extraInfo": {"timestamp": str(int(time.time()))}}
    with suppress(OSError), Path(name).open("x") as file:
        json.dump({"message": message}, file)
