"""Tuning of Python's collector of cycles, which must not pause everything at random.

A full collection looks at every object: with a thousand jobs of eight workers that takes a tenth of
a second of a core and more, in which the event loop stands still, and by itself it comes with every
burst of work. The caches have no cycles; those come from errors and from connections that end.
"""

import asyncio
import gc
from collections.abc import Awaitable
from typing import NoReturn

COLLECT_SECONDS = 300.0
"""Rarely enough for less than one reaction in a thousand to meet one."""

_NEVER = 1_000_000_000


async def collect_rarely(settled: Awaitable[None]) -> NoReturn:
    """Take over the full collections of the process, from when it has settled.

    The objects that exist then are never looked at again; the collections of young objects go on.
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
    finally:
        gc.unfreeze()
        gc.set_threshold(*usual)
