"""Threads that call torch, and end before the interpreter does.

Python (before 3.14) unwinds the stack of a thread that wants to go on while the main thread
finalizes the interpreter. Where a call into torch returns there, or a tensor is let go of, C++
cannot be unwound, and aborts the process (torch 2.15), although it had done all its work.
"""

import atexit
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

EXIT_SECONDS = 2.0
"""A thread that takes longer hangs, and hardly returns in the moment the process ends."""


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
    """Start a thread; when the process ends, `end` is called, and the thread is awaited so long."""
    for thread in list(_endings):
        if not thread.is_alive():
            _endings.pop(thread, None)
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    _endings[thread] = _Ending(end, seconds)
    return thread


@atexit.register
def _end_all() -> None:
    # A fork of this process has none of them, and their locks may be held for ever.
    alive = [(thread, ending) for thread, ending in _endings.items() if thread.is_alive()]
    for _, ending in alive:
        ending.end()
    began = time.monotonic()
    for thread, ending in alive:
        thread.join(max(0.0, began + ending.seconds - time.monotonic()))
