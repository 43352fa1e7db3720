"""Links between processes of one machine that die silently: no data passes, without any error.

Every socket of a worker that is cut off gets a filter that drops all incoming packets, and so do
the others' connections to it. It is a filter of the kernel and needs no rights: no packet is
acknowledged, no end of a connection is seen, and once the link is back, lost data is sent again.

A worker is cut off while a file with its name exists. Its process writes its own ports there, for
the others.
"""

import ctypes
import os
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOOK_SECONDS = 0.005
_ATTACH, _DETACH = 26, 27  # SO_ATTACH_FILTER and SO_DETACH_FILTER, which the socket module lacks
_RETURN = 0x06  # BPF_RET: the number of bytes of a packet that pass, which is 0
_DROP = ctypes.create_string_buffer(struct.pack("HBBI", _RETURN, 0, 0, 0))
_FILTER = struct.pack("HxxxxxxQ", 1, ctypes.addressof(_DROP))

Descriptor = tuple[int, int]
"""A descriptor and its inode: numbers of descriptors are reused, inodes are not."""


def cut(folder: Path, worker: str) -> None:
    """Let no data through to a worker or from it."""
    _file(folder, worker).touch()


def mend(folder: Path, worker: str) -> None:
    """Let all data through again."""
    _file(folder, worker).unlink()


def obey(folder: Path, worker: str) -> None:
    """Cut and restore the links of this process as ordered, from now on."""
    own = _file(folder, worker)
    threading.Thread(target=_obey, args=(own,), name="links", daemon=True).start()


def _obey(own: Path) -> None:
    deaf = set[Descriptor]()
    while True:
        time.sleep(_LOOK_SECONDS)
        files = set(own.parent.glob("*.cut"))
        if files or deaf:
            deaf = _follow(own, files, deaf)


def _follow(own: Path, files: set[Path], deaf: set[Descriptor]) -> set[Descriptor]:
    """Block the sockets that are cut off, restore the others, and return the blocked ones."""
    is_cut_off, dead = own in files, _ports(files - {own})
    deaf_now, ports = set[Descriptor](), set[int]()
    for descriptor, near, far in sockets():
        ports.add(near)
        if is_cut_off or far in dead:
            deaf_now.add(descriptor)
    for number, _ in deaf_now - deaf:
        _set(number, _ATTACH)
    for number, _ in deaf & {descriptor for descriptor, _, _ in sockets()} - deaf_now:
        _set(number, _DETACH)
    if is_cut_off:
        with suppress(FileNotFoundError), own.open("r+") as file:  # restored meanwhile
            file.write(" ".join(map(str, ports)))
            file.truncate()
    return deaf_now


def _file(folder: Path, worker: str) -> Path:
    return folder / f"{worker}.cut"


def _ports(files: Iterable[Path]) -> set[int]:
    ports = set[int]()
    for file in files:
        with suppress(FileNotFoundError):
            ports.update(map(int, file.read_text().split()))
    return ports


def sockets() -> Iterator[tuple[Descriptor, int, int | None]]:
    """Yield all TCP sockets: the descriptor, its own port, and the port of the other end."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - only the names are needed
        number = int(name)
        with suppress(OSError), borrowed(number) as found:
            if found.family in (socket.AF_INET, socket.AF_INET6):
                inode = os.fstat(number).st_ino
                yield (number, inode), found.getsockname()[1], _far(found)


def _far(found: socket.socket) -> int | None:
    try:
        port: int = found.getpeername()[1]
    except OSError:  # it listens
        return None
    return port


def _set(number: int, option: int) -> None:
    with suppress(OSError), borrowed(number) as found:  # closed meanwhile
        found.setsockopt(socket.SOL_SOCKET, option, _FILTER)


@contextmanager
def borrowed(number: int) -> Iterator[socket.socket]:
    found = socket.socket(fileno=number)
    try:
        yield found
    finally:
        found.detach()  # its owner closes it
