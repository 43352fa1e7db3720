"""Imports that Python's garbage collector does not examine, neither meanwhile nor at the end.

PyTorch makes some hundred thousand objects when it is imported. The collector examines all of them
several times meanwhile, and frees them when the process ends, though none of them is ever garbage.
That takes a quarter of the import's CPU time, and nearly all CPU time of the process's end.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collections() -> Iterator[None]:
    """Collect no garbage inside the block."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def keep_all() -> None:
    """Let no collection examine what exists by now, not even the one at the end of the process.

    A script's own objects come later: they are collected as usual.
    """
    gc.freeze()
