"""Tuning of Python's garbage collector, which must not pause the process at random times.

A full collection visits every object: with a thousand jobs of eight workers that takes a tenth of a
second or more, in which the event loop stops, and by default it happens in every burst of work. The
caches have no reference cycles; these come from errors and from connections that end.

After each collection the C library gives free pages back to the kernel. Else it keeps them between
pages in use, and the memory of the process grows with the jobs that have come and gone.
"""

import asyncio
import ctypes
import gc
from collections.abc import Awaitable
from typing import NoReturn

COLLECT_SECONDS = 300.0
"""The interval of collections: less than one reaction in a thousand meets one."""

_NEVER = 1_000_000_000


async def collect_rarely(settled: Awaitable[None]) -> NoReturn:
    """Make the full collections of the process at fixed times, once `settled` has returned.

    The objects that exist then are never visited again; young objects are collected as usual.
    """
    usual = gc.get_threshold()
    try:
        gc.set_threshold(usual[0], usual[1], _NEVER)
        await settled
        gc.collect()
        gc.freeze()
        while True:
            await asyncio.sleep(COLLECT_SECONDS)
            gc.collect()
            give_back_free_pages()
    finally:
        gc.unfreeze()
        gc.set_threshold(*usual)


def give_back_free_pages() -> None:
    """Have the C library return the pages that it does not use; glibc alone can be asked to."""
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)
