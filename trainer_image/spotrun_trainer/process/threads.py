"""Threads that call torch, and end before the interpreter does.

Python (before 3.14) unwinds the stack of a thread that wants to continue while the main thread
finalizes the interpreter. If a call into torch returns there, or a tensor is released, C++ cannot
be unwound, and aborts the process (torch 2.15), although it had done all its work.

gloo's own threads are such threads, too: they release a collective's Python objects a moment after
the collective is done, and a script may end at this moment.
"""

import atexit
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

EXIT_SECONDS = 2.0
"""A thread that takes longer hangs, and is unlikely to return just when the process ends."""
_LOOK_SECONDS = 0.001
_GLOO_NAME = "Name:\tpt_gloo_runloop"  # as /proc says it
_ASLEEP = "State:\tS (sleeping)"


class _Ending(NamedTuple):
    end: Callable[[], None]
    seconds: float


_endings: dict[threading.Thread, _Ending] = {}


def start(
    run: Callable[[], None],
    *,
    name: str,
    end: Callable[[], None] = lambda: None,
    seconds: float = EXIT_SECONDS,
) -> threading.Thread:
    """Start a thread; at the process's end `end` is called, and the thread has `seconds`."""
    for thread in list(_endings):
        if not thread.is_alive():
            _endings.pop(thread, None)
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    _endings[thread] = _Ending(end, seconds)
    return thread


@atexit.register
def _end_all() -> None:
    # A fork of this process has none of the threads, and their locks may be held for ever.
    alive = [(thread, ending) for thread, ending in _endings.items() if thread.is_alive()]
    for _, ending in alive:
        ending.end()
    began = time.monotonic()
    for thread, ending in alive:
        thread.join(max(0.0, began + ending.seconds - time.monotonic()))


@cache
def await_gloo_at_exit() -> None:
    """Wait, when the process ends, until gloo's threads have released what they used."""
    atexit.register(_await_gloo)


def _await_gloo() -> None:
    until = time.monotonic() + EXIT_SECONDS
    before = _gloo_threads()
    while before and time.monotonic() < until:
        # This releases the interpreter's lock, and so wakes a thread that waits for it.
        time.sleep(_LOOK_SECONDS)
        now = _gloo_threads()
        if now == before and all(one.is_asleep for one in now.values()):
            return
        before = now


class _State(NamedTuple):
    is_asleep: bool
    switches: tuple[str, ...]
    """The lines that say how often the thread left its processor: one that kept sleeping did
    not."""


def _gloo_threads() -> dict[str, _State]:
    found = {}
    for path in Path("/proc/self/task").glob("*/status"):
        try:
            lines = path.read_text().splitlines()
        except OSError:  # the thread has just ended
            continue
        if lines[:1] == [_GLOO_NAME]:
            switches = tuple(line for line in lines if "ctxt_switches" in line)
            found[path.parent.name] = _State(_ASLEEP in lines, switches)
    return found
