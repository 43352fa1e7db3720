"""The end of a training script: workers wait for each other, and the store's host leaves last."""

import logging
import socket
import threading
from collections.abc import Callable
from datetime import timedelta

from torch.distributed import TCPStore  # type: ignore[attr-defined]  # not in its __all__

from spotrun.wire import World
from spotrun_trainer.agent.next_action import workers
from spotrun_trainer.process import threads
from spotrun_trainer.process.addresses import split_address

log = logging.getLogger(__name__)

_TIMEOUT = timedelta(seconds=10)
_LOOK_SECONDS = 0.1
_LINGER_SECONDS = 3.0
"""The host of the store waits this long for workers that have not yet seen that all are done."""


class ExitBarrier:
    """Announces that this worker is done and waits for the others, in a thread of its own.

    It is a thread because a store on a lost machine blocks, and the agent must still hear the
    operator.
    """

    def __init__(self, world: World, *, on_done: Callable[[], None]) -> None:
        """Begin; `on_done` is called once all workers are done."""
        assert world.store is not None, "it trained in that world"
        self._address = split_address(world.store)
        self._prefix = f"{world.secret}/{world.number}"
        self._workers = workers(world)
        self._is_host = world.rank == 0
        self._on_done = on_done
        self._may_go = threading.Event()
        self._ending = threading.Event()
        self.all_are_done = False
        threads.start(self._run, name="spotrun-farewell", end=self._ending.set)

    def wait(self) -> None:
        """Wait until all workers have seen that all are done, for a few seconds at most."""
        self._may_go.wait(_LINGER_SECONDS)

    def _run(self) -> None:
        try:
            # torch would retry for a long time, and print its stack at each attempt.
            socket.create_connection(self._address, timeout=_TIMEOUT.total_seconds()).close()
            store = TCPStore(*self._address, is_master=False, timeout=_TIMEOUT)
            if store.add(f"{self._prefix}/done", 1) >= self._workers:
                store.set(f"{self._prefix}/all", "")
            while not store.check([f"{self._prefix}/all"]):
                if self._ending.wait(_LOOK_SECONDS):
                    return
            store.add(f"{self._prefix}/seen", 1)
            self.all_are_done = True
            self._on_done()
            while self._is_host and store.add(f"{self._prefix}/seen", 0) < self._workers:
                if self._ending.wait(_LOOK_SECONDS):
                    return
        except (OSError, RuntimeError) as error:  # torch's DistError is a RuntimeError
            log.info("this worker cannot reach the store of its world any more: %s", error)
        self._may_go.set()
