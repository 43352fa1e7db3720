"""The end of what training processes print, kept for the message of their failure.

Their output goes through a pipe to the agent, which passes it on, a line at a time. If torchrun's
options redirect it into files, the ends of these are read.
"""

import atexit
import os
import select
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any
from weakref import WeakKeyDictionary

from torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler import (
    SubprocessHandler,
)

from spotrun_trainer.agent.processes.whole_lines import HELD_SECONDS, WholeLines

VARIABLE = "SPOTRUN_KEEP_OUTPUT"
KEPT_BYTES = 1 << 15
LAST_SECONDS = 0.5
"""All output of an ended process is in the pipe already, but others may hold the pipe open."""
FLUSH_SECONDS = 5.0
"""An agent that ends waits this long for output on its way, and for processes that hold the pipe
open."""
_PART_BYTES = 1 << 16


class OutputTail:
    """The last output of one process."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._files: list[Path] = []  # where torchrun redirects it to
        self._targets: dict[int, int] = {}  # a pipe's end, and where its output is passed on to
        self._is_over = threading.Event()

    def text(self) -> str:
        """Return what was printed last; waits a moment for output that is on its way."""
        if self._targets:
            self._is_over.wait(LAST_SECONDS)
        return (bytes(self._kept) + b"".join(map(_end_of, self._files)))[-KEPT_BYTES:].decode(
            errors="replace"
        )

    def redirect(self, file: IO[Any] | None, usual: int) -> IO[Any] | None:
        """Return the file that a process must print into; None: the usual one."""
        if file is not None:
            self._files.append(Path(file.name))
            return None
        if os.isatty(usual):  # the script must see a terminal
            return None
        ours, theirs = os.pipe()
        self._targets[ours] = usual
        return os.fdopen(theirs, "wb", buffering=0)

    def begin(self) -> None:
        """Pass on all output from now on."""
        if not self._targets:
            self._is_over.set()
            return
        _HANDED_ON.add(self)
        threading.Thread(target=self._hand_on, name="spotrun-output", daemon=True).start()

    def flush(self, seconds: float) -> None:
        """Wait until all output is passed on, so that none is lost when this process ends."""
        self._is_over.wait(seconds)

    def _hand_on(self) -> None:
        poll = select.poll()
        left = {pipe: WholeLines(target) for pipe, target in self._targets.items()}
        for pipe in left:
            poll.register(pipe, select.POLLIN)
        while left:
            is_held = any(lines.is_held for lines in left.values())
            for pipe, _ in poll.poll(HELD_SECONDS * 1000 if is_held else None):
                part = os.read(pipe, _PART_BYTES)
                self._keep(part)
                left[pipe].add(part)
                if not part:
                    left.pop(pipe).write_rest()
                    poll.unregister(pipe)
                    os.close(pipe)
            for lines in left.values():
                lines.write_late()
        _HANDED_ON.discard(self)
        self._is_over.set()

    def _keep(self, part: bytes) -> None:
        self._kept += part
        del self._kept[:-KEPT_BYTES]


_TAILS: WeakKeyDictionary[SubprocessHandler, OutputTail] = WeakKeyDictionary()
_HANDED_ON: set[OutputTail] = set()  # until all is passed on; torchrun may have dropped the process


def tail_of(handler: SubprocessHandler) -> str | None:
    """Return what a process of torchrun's printed last; None if that is not kept."""
    tail = _TAILS.get(handler)
    return tail.text() if tail is not None else None


def watch_output(environment: Mapping[str, str]) -> None:
    """Keep the end of what torchrun's processes print, unless the environment says otherwise."""
    if environment.get(VARIABLE) == "0":
        return
    before = SubprocessHandler._popen  # noqa: SLF001 - there is no other way in (2.10 to 2.15)

    def begun(handler: SubprocessHandler, args: tuple[str, ...], env: dict[str, str]) -> Any:  # noqa: ANN401
        tail = OutputTail()
        files = {
            name: tail.redirect(getattr(handler, name), usual)
            for name, usual in (("_stdout", 1), ("_stderr", 2))
        }
        ours = {name: file for name, file in files.items() if file is not None}
        vars(handler).update(ours)
        try:
            process = before(handler, args, env)
        finally:
            for name, file in ours.items():
                setattr(handler, name, None)
                file.close()
        tail.begin()
        _TAILS[handler] = tail
        return process

    SubprocessHandler._popen = begun  # type: ignore[assignment,method-assign]  # noqa: SLF001 - see above
    atexit.register(_flush)


def _flush() -> None:
    end = time.monotonic() + FLUSH_SECONDS
    for tail in list(_HANDED_ON):
        tail.flush(max(end - time.monotonic(), 0.0))


def _end_of(file: Path) -> bytes:
    with suppress(OSError), file.open("rb") as content:
        content.seek(max(file.stat().st_size - KEPT_BYTES, 0))
        return content.read()
    return b""
