"""A thread that cuts a world's connections once the operator has given that world up.

A process that waits for a silent peer cannot check that itself.
"""

import logging
import threading
import time
from pathlib import Path

from spotrun_trainer.elastic.connections import Connections
from spotrun_trainer.elastic.rank_info import is_given_up
from spotrun_trainer.process.ipc_files import WorldFile

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.02  # one stat
_COME_TOGETHER_SECONDS = 0.3
"""A process that waits for others checks that itself, except while it connects: so it gets this
time."""


class Watch:
    """Watches world.json for one process, in all its worlds."""

    def __init__(self, directory: Path) -> None:
        self._file = WorldFile(directory)
        self._world_number = 0
        self._is_formed = False
        self._given_up_since: float | None = None
        self._connections = Connections()
        threading.Thread(target=self._run, name="spotrun-watch", daemon=True).start()

    def meets(self, world_number: int) -> Connections:
        """Note that the process joins a world; return an object for its connections."""
        self._is_formed, self._given_up_since = False, None
        self._world_number, self._connections = world_number, Connections()
        return self._connections

    def formed(self) -> None:
        """Note that the world is formed."""
        self._is_formed = True

    def _run(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            try:
                self._look()
            except (OSError, ValueError):
                log.exception("world.json cannot be read")

    def _look(self) -> None:
        connections, answer = self._connections, self._file.read()
        world = answer.world if answer is not None else None
        if not is_given_up(world, self._world_number, is_formed=self._is_formed):
            return
        now = time.monotonic()
        self._given_up_since = self._given_up_since or now
        if self._is_formed or now - self._given_up_since > _COME_TOGETHER_SECONDS:
            connections.cut()
