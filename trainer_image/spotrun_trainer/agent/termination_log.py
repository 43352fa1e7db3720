"""The last words of a worker: one line in its termination log, however it ends."""

import logging
import threading
from pathlib import Path

from spotrun.wire import LastWords, write_last_words

log = logging.getLogger(__name__)


class TerminationLog:
    """The file for last words; only the first ones are written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._is_written = False

    @property
    def is_written(self) -> bool:
        """Whether last words were written."""
        return self._is_written

    def write(self, words: LastWords) -> None:
        """Write them, unless some are written already; a full disk never delays the end."""
        with self._lock:
            if self._is_written:
                return
            self._is_written = True
            line = write_last_words(words)
            log.info("last words: %s", line)
            try:
                # The kubelet reads the end of the file; the script may have written before us.
                with self._path.open("a") as file:
                    file.write(("\n" if file.tell() else "") + line + "\n")
            except OSError as error:
                log.warning("the termination message cannot be written: %s", error)
