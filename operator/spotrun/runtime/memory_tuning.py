"""Tuning of the process's memory: when Python collects garbage, and what the C library keeps.

A full collection visits every object: with a thousand jobs of eight workers that takes a tenth of a
second or more, in which the event loop stops, and by default it happens in every burst of work. The
caches have no reference cycles; these come from errors and from connections that end.

The C library keeps free pages between pages in use, so the memory of the process grows with the
jobs that have come and gone. Three things together prevent most of that: large blocks, such as the
answers of the API server, go back to the kernel as soon as they are free; all threads share one
heap; and after each collection the C library gives its other free pages back.
"""

import asyncio
import ctypes
import gc
from collections.abc import Awaitable
from typing import NoReturn

COLLECT_SECONDS = 300.0
"""The interval of collections: less than one reaction in a thousand meets one."""

FIRST_SECONDS = 30.0
"""The time until the first one, which takes the longest: a new leader first makes decisions."""

_NEVER = 1_000_000_000

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # from malloc.h of glibc
_LARGE_BYTES = 128 * 1024
"""glibc's first limit of a large block, which it raises up to 32 MB unless somebody sets it."""


async def keep_small(settled: Awaitable[None]) -> NoReturn:
    """Keep the memory of the process small; `settled` returns when the caches are full."""
    limit_heaps()
    await collect_rarely(settled)


async def collect_rarely(settled: Awaitable[None]) -> NoReturn:
    """Make the full collections of the process at fixed times, once `settled` has returned.

    The objects that exist at the first one are never visited again; young objects are collected as
    usual.
    """
    usual = gc.get_threshold()
    gc.set_threshold(usual[0], usual[1], _NEVER)
    try:
        await settled
        await asyncio.sleep(FIRST_SECONDS)
        gc.collect()
        await _collect_others()
    finally:
        gc.set_threshold(*usual)


async def _collect_others() -> NoReturn:
    gc.freeze()
    try:
        while True:
            await asyncio.sleep(COLLECT_SECONDS)
            gc.collect()
            give_back_free_pages()
    finally:
        gc.unfreeze()


def limit_heaps() -> None:
    """Have the C library use one heap, without large blocks; glibc alone can be asked to."""
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_ARENA_MAX, 1)


def give_back_free_pages() -> None:
    """Have the C library return the pages that it does not use; glibc alone can be asked to."""
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)
