"""Asks the process that fetches objects, one for each process that needs it."""

import errno
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any


class Fetcher:
    """Starts the process at the first fetch; a fork of this process starts its own."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._of_parent: list[subprocess.Popen[str]] = []
        self._one_at_a_time = threading.Lock()
        os.register_at_fork(after_in_child=self._begin_anew)

    def fetch(self, address: str, name: str, num_bytes: int, version: str, target: Path) -> None:
        """Copy an object into a new file; raises OSError with the address and the reason."""
        asked = {
            "address": address,
            "name": name,
            "bytes": num_bytes,
            "version": version,
            "target": str(target),
        }
        with self._one_at_a_time:
            answer = self._ask(json.dumps(asked), f"{address}/{name}")
        if answer:
            raise OSError(answer["errno"], answer["error"], f"{address}/{name}")

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
                errno.EIO, "the process that fetches it has ended; what it printed says why", where
            ) from error
        return answer

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "spotrun_trainer.data.places.fetcher"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,  # signals to the training's processes are not meant for it
            )
        return self._process

    def _begin_anew(self) -> None:
        """Forget the parent's process, and a lock that one of its threads may hold."""
        if self._process is not None:
            self._of_parent.append(self._process)  # deleted it would be waited for
            self._process = None
        self._one_at_a_time = threading.Lock()


FETCHER = Fetcher()
