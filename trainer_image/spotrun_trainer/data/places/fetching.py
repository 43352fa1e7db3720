"""Asks the process that talks to object stores; each process that needs one has its own."""

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any


class Fetcher:
    """Starts the process at the first request; a fork of this process starts its own."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._of_parent: list[subprocess.Popen[str]] = []
        self._one_at_a_time = threading.Lock()
        os.register_at_fork(after_in_child=self._begin_anew)

    def ask(
        self, do: str, address: str, name: str, more: Mapping[str, object] | None = None
    ) -> dict[str, Any]:
        """Return the answer to a request; raises OSError with the address and the reason."""
        where = f"{address}/{name}" if name else address
        line = json.dumps({"do": do, "address": address, "name": name, **(more or {})})
        with self._one_at_a_time:
            answer = self._ask(line, where)
        if "errno" in answer:
            raise OSError(answer["errno"], answer["error"], where)
        return answer

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        process.kill()
        process.wait()

    def _ask(self, line: str, where: str) -> dict[str, Any]:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            print(line, file=process.stdin, flush=True)
            answer: dict[str, Any] = json.loads(process.stdout.readline())
        except (OSError, ValueError) as error:
            self.close()
            raise OSError(
                errno.EIO,
                "the process that reads from the store has ended; its output says why",
                where,
            ) from error
        except BaseException:  # Ctrl-C: the answer would be read as that of the next request
            self.close()
            raise
        return answer

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "spotrun_trainer.data.places.fetcher"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,  # signals to the training's processes must not reach it
            )
        return self._process

    def _begin_anew(self) -> None:
        """Forget the parent's process, and a lock that one of its threads may hold."""
        if self._process is not None:
            self._of_parent.append(self._process)  # if it were deleted, Python would wait for it
            self._process = None
        self._one_at_a_time = threading.Lock()


FETCHER = Fetcher()
SHARD_FETCHER = Fetcher()
"""A separate one for whole shards, so that a listing need not wait for them."""


def close_fetchers() -> None:
    """End the processes that this process has started."""
    FETCHER.close()
    SHARD_FETCHER.close()
