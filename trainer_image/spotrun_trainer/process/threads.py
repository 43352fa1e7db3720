"""Threads that call torch, and are over before the interpreter is.

Python (before 3.14) unwinds the stack of a thread that wants to go on while the main thread
finalizes the interpreter. Where a call into torch returns there, or a tensor is let go of, C++
cannot be unwound, and aborts the process (torch 2.15): one that had done all that it had to do.
"""

import atexit
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

EXIT_SECONDS = 2.0
"""Who takes longer hangs, and hardly comes back in the very moment in which the process ends."""


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
    """Start a thread; when the process ends, it is asked to `end`, and waited for so long."""
    for thread in list(_endings):
        if not thread.is_alive():
            _endings.pop(thread, None)
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    _endings[thread] = _Ending(end, seconds)
    return thread


@atexit.register
def _end_all() -> None:
    # In a fork of this process there are none of them, and their locks may be held for ever.
    alive = [(thread, ending) for thread, ending in _endings.items() if thread.is_alive()]
    for _, ending in alive:
        ending.end()
    began = time.monotonic()
    for thread, ending in alive:
        thread.join(max(0.0, began + ending.seconds - time.monotonic()))
