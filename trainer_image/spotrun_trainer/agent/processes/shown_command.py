"""The command in `ps`, and /proc/PID/environ, of a process begun before its command was known.

The kernel shows the memory in which it put arguments and environment at the start. A process may
name other memory of its own, without a capability, where the kernel can checkpoint processes
(CONFIG_CHECKPOINT_RESTORE, as distributions set it). Elsewhere the arguments are written over the
old ones, as far as there is room, and the environment is not changed.
"""

import ctypes
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_STAT = Path("/proc/self/stat")
_SET_MM, _SET_MM_MAP = 35, 14  # of <linux/prctl.h>
_NO_FILE = 0xFFFFFFFF
_BEFORE_ARGUMENTS = (26, 27, 45, 46, 47)  # numbers in proc_pid_stat(5): code, data, start of heap
_STACK, _ARGUMENTS, _END_OF_ARGUMENTS = 28, 48, 49
_shown: list[ctypes.Array[ctypes.c_char]] = []
"""The kernel reads this memory whenever a program reads these files."""


class _Map(ctypes.Structure):
    """The struct prctl_mm_map."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in (
            "start_code", "end_code", "start_data", "end_data", "start_brk", "brk", "start_stack",
            "arg_start", "arg_end", "env_start", "env_end", "auxv",
        )),
        ("auxv_size", ctypes.c_uint32),
        ("exe_fd", ctypes.c_uint32),
    )  # fmt: skip


def show(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Show this process with another command and environment, where the kernel allows it."""
    with suppress(OSError, AttributeError, ValueError, IndexError):  # no Linux, or no such /proc
        arguments = _joined(command)
        variables = _joined(f"{name}={value}" for name, value in environment.items())
        # The call also names the end of the heap, which no other thread may move meanwhile.
        is_alone = threading.active_count() == 1
        if not (is_alone and _name_other_memory(arguments, variables)):
            _write_over(arguments)


def _name_other_memory(arguments: bytes, environment: bytes) -> bool:
    """Let the kernel show other memory; False if it refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.sbrk.restype = ctypes.c_void_p
    texts = [ctypes.create_string_buffer(text, len(text)) for text in (arguments, environment)]
    places = [(ctypes.addressof(text), ctypes.addressof(text) + len(text)) for text in texts]
    at = _addresses()
    before = [at(number) for number in _BEFORE_ARGUMENTS]
    map_ = _Map(*before, 0, at(_STACK), *places[0], *places[1], 0, 0, _NO_FILE)
    size = ctypes.c_ulong(ctypes.sizeof(map_))
    order, unused, place = ctypes.c_ulong(_SET_MM_MAP), ctypes.c_ulong(0), ctypes.byref(map_)
    # Read last, because all of the above may have moved it. If the kernel were told an earlier end,
    # the heap could not grow any more.
    map_.brk = libc.sbrk(0)
    is_done = not libc.prctl(_SET_MM, order, place, size, unused)
    if is_done:
        _shown.extend(texts)
    return is_done


def _write_over(arguments: bytes) -> None:
    at = _addresses()
    begin, end = at(_ARGUMENTS), at(_END_OF_ARGUMENTS)
    if begin and arguments:
        room = end - begin
        ctypes.memmove(begin, arguments[: room - 1].ljust(room, b"\0"), room)


def _joined(texts: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(text) + b"\0" for text in texts)


def _addresses() -> Callable[[int], int]:
    """Return a function that finds this process's fields by their numbers in proc_pid_stat(5)."""
    after_name = _STAT.read_text().rpartition(")")[2].split()
    return lambda number: int(after_name[number - 3])
