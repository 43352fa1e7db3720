"""Imports that Python's collector of cycles does not look at, neither meanwhile nor at the end.

PyTorch makes some hundred thousand objects when it is imported. The collector looks at all of them
several times meanwhile, and takes them apart when the process ends, though none of them is ever
garbage. That is a quarter of an import's CPU time, and nearly all of an end's.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collections() -> Iterator[None]:
    """Collect no garbage inside."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def keep_all() -> None:
    """Have no collection look at what exists by now, also not that at the end of the process.

    A script's own objects come later: they are collected as ever.
    """
    gc.freeze()
