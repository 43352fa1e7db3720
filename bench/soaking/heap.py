"""The memory of a process that the C library manages: in use, and free.

Memory that grows is a leak only if it is in use. What is free lies between pages in use, and later
allocations fill it. Python's own small objects are not in here.
"""

import ctypes
from dataclasses import dataclass


@dataclass(frozen=True)
class Heap:
    """Megabytes of the C library's heap."""

    used_mb: float
    free_mb: float


class _Mallinfo2(ctypes.Structure):
    """The struct of glibc 2.33 and newer, from malloc.h."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def heap() -> Heap | None:
    """Return the heap of this process; None if its C library cannot tell."""
    if (ask := getattr(ctypes.CDLL(None), "mallinfo2", None)) is None:
        return None
    ask.restype = _Mallinfo2
    found = ask()
    return Heap(found.uordblks / 1e6, found.fordblks / 1e6)
