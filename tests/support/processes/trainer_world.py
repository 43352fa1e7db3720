"""Several real processes that train together, as torchrun would start them.

They are forked from a server that has imported torch once, so a test does not pay for it again, and
each hosts nothing: they meet in a store of the test's own process, as under torchrun's agent.
"""

import multiprocessing
import os
import pickle
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from torch.distributed import TCPStore  # type: ignore[attr-defined]  # not in __all__

PATIENCE_SECONDS = 120.0

SERVER = multiprocessing.get_context("forkserver")
# There is one such server in a process: who starts it says what the children of all have.
# The first optimizer of a process would import dynamo, for a second of CPU; the test's module would
# import pytest, for a quarter.
SERVER.set_forkserver_preload(["spotrun_trainer.run", "torch._dynamo", "pytest"])


@dataclass(frozen=True)
class Ended:
    """The end of a process."""

    value: Any  # what its function returned
    error: str  # the last line of the exception it ended with
    exit_code: int | None
    said: str  # on stdout and stderr


OWN_WORKER = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
"""The variables of a process that is the only one of its worker, for `by_rank`."""


def run_world(
    size: int,
    function: Callable[..., Any],
    *arguments: Any,
    env: Mapping[str, str] = {},
    by_rank: Callable[[int], Mapping[str, str]] = lambda _rank: {},
    patience_seconds: float = PATIENCE_SECONDS,
) -> list[Ended]:
    """Call a function of a test module in so many processes; by rank, how each of them ended."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RUN_ID": "test",
        **env,
    }
    ranks = [
        Process(place_of(rank) | shared | dict(by_rank(rank)), function, *arguments)
        for rank in range(size)
    ]
    until = time.monotonic() + patience_seconds
    return [rank.ended(until) for rank in ranks]


def run_alone(function: Callable[..., Any], *arguments: Any, env: Mapping[str, str] = {}) -> Ended:
    """Call a function in a process of its own, that nobody started as part of a world."""
    return Process(env, function, *arguments).ended(time.monotonic() + PATIENCE_SECONDS)


def place_of(rank: int) -> dict[str, str]:
    """A process that is the only one of its worker."""
    return {"RANK": str(rank), "LOCAL_RANK": str(rank)}


class Process:
    """A process that calls a function of a test module, and begins at once."""

    def __init__(
        self, env: Mapping[str, str], function: Callable[..., Any], *arguments: Any
    ) -> None:
        # Their server has the environment of the test that first used it.
        gpus = {name: os.environ[name] for name in ("CUDA_VISIBLE_DEVICES",) if name in os.environ}
        handle, name = tempfile.mkstemp()
        os.close(handle)
        self._said = Path(name)
        self._results, sender = SERVER.Pipe(duplex=False)
        self._process: ForkServerProcess = SERVER.Process(
            target=_run, args=(gpus | dict(env), name, sender, function, arguments)
        )
        self._process.start()
        sender.close()

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process.is_alive()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self._process.pid is not None, "it was started"
        with suppress(ProcessLookupError):  # it is over, which comes to the same
            os.kill(self._process.pid, number)

    def ended(self, until: float) -> Ended:
        """Wait for its end, but not for ever."""
        value, error = None, "it was still running when the test lost patience"
        try:
            if self._results.poll(max(0.0, until - time.monotonic())):
                value, error = pickle.loads(self._results.recv_bytes())  # noqa: S301 - from our own process
        except EOFError:
            error = ""
        self._process.join(max(0.1, until - time.monotonic()))
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        said = self._said.read_text()
        self._said.unlink()
        return Ended(value, error, self._process.exitcode, said)


def _run(
    env: Mapping[str, str],
    output: str,
    sender: Connection,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    os.environ.update(env)
    descriptor = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    import torch  # noqa: PLC0415 - the server has it already

    torch.set_num_threads(1)
    try:
        _send(sender, function(*arguments), "")
    except Exception as error:
        _send(sender, None, traceback.format_exception_only(error)[-1].strip())
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)


def _send(sender: Connection, value: Any, error: str) -> None:
    # As bytes: what torch teaches `send` about tensors lasts only as long as the process that sent.
    sender.send_bytes(pickle.dumps((value, error)))
