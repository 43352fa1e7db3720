"""An exception that ends a script is noted where torchrun looks, as torch's @record does.

So a job's failure says what was raised and where, and does not only point to the log.
"""

import json
import os
import signal
import time
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
_MOST_CHARACTERS = 500  # of the exception's own words: a message on the wire has 1,024
_CAUSE_CHARACTERS = 150
_MOST_FRAMES = 3
_OF_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "/spotrun_trainer/")
"""The innermost call may be in a library; the script's call of it says more than those between."""
_KILLED = "killed by signal"  # torch's words of a DataLoader's worker
_WORKER_ENDS_SECONDS = 2.0


def note_error(error: BaseException, trace: TracebackType | None) -> None:
    """Note an exception that nobody caught; only torchrun's own process of a rank does so."""
    place = os.environ.get(ERROR_FILE)
    if not place or os.getpid() != os.getsid(0) or Path(place).exists():
        return
    extra = {"py_callstack": "", "timestamp": str(int(time.time()))}
    words = words_of(_with_end_of_worker(error, trace), trace)
    content = {"message": {"message": words, "extraInfo": extra}}
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    Path(place).write_text(json.dumps(content))


def words_of(error: BaseException, trace: TracebackType | None) -> str:
    """Return the exception, and the frames in which it was raised, the innermost first."""
    said = _said(error, _MOST_CHARACTERS)
    frames = traceback.extract_tb(trace)[::-1]
    shown = [one for n, one in enumerate(frames) if n == 0 or not _is_of_a_library(one.filename)]
    where = [
        f"{Path(one.filename).name}:{one.lineno} in {one.name}" for one in shown[:_MOST_FRAMES]
    ]
    placed = " < ".join([f"{said} at {where[0]}", *where[1:]]) if where else said
    before = _said(_root_of(error), _CAUSE_CHARACTERS)
    return placed if placed.startswith(before) else f"{placed}, after {before}"


def _with_end_of_worker(error: BaseException, trace: TracebackType | None) -> BaseException:
    """Return how a DataLoader's worker ended, where torch saw only the consequence.

    While a batch is fetched from the worker the connection ends before the worker does.
    """
    follows = isinstance(error, OSError | EOFError) or "exited unexpectedly" in str(error)
    if not follows or _KILLED in str(_root_of(error)):
        return error
    ended = _ended(_loader_workers(trace))
    if ended is None:
        return error
    ended.__cause__ = error
    return ended


def _loader_workers(trace: TracebackType | None) -> list[Any]:
    """Return the workers of the DataLoader that was asked for a batch; none if none was."""
    for frame, _ in traceback.walk_tb(trace):
        if frame.f_code.co_name == "_try_get_data":
            return list(getattr(frame.f_locals.get("self"), "_workers", ()))
    return []


def _ended(workers: list[Any]) -> RuntimeError | None:
    """Return the end of the first worker that a signal ends about now, in torch's words."""
    from multiprocessing.connection import wait  # noqa: PLC0415 - imported, if there are workers

    ready = wait([one.sentinel for one in workers], _WORKER_ENDS_SECONDS) if workers else []
    for worker in (one for one in workers if one.sentinel in ready):
        worker.join()  # its pipe is closed before it can be waited for
        if worker.exitcode < 0:
            why = signal.strsignal(-worker.exitcode)
            return RuntimeError(f"DataLoader worker (pid {worker.pid}) is {_KILLED}: {why}")
    return None


def _is_of_a_library(file: str) -> bool:
    return any(part in file for part in _OF_LIBRARIES)


def _said(error: BaseException, characters: int) -> str:
    """Return the exception in one line; its end, which has what was raised in a loader, is kept."""
    text = " ".join(f"{type(error).__name__}: {error}".rstrip(": ").split())
    if len(text) <= characters:
        return text
    half = (characters - len(" ... ")) // 2
    return f"{text[:half]} ... {text[-half:]}"


def _root_of(error: BaseException) -> BaseException:
    """Return the first exception of those that followed from each other."""
    seen = {id(error)}
    while True:
        before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if before is None or id(before) in seen:
            return error
        error = before
        seen.add(id(error))
