"""The requests of this process to object stores, counted by what stores charge for them."""

import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class Made:
    """Requests by their kind of cost, and their bytes."""

    puts: int = 0  # requests that write, copy or list
    gets: int = 0
    put_bytes: int = 0
    got_bytes: int = 0

    def __sub__(self, earlier: "Made") -> "Made":
        return Made(
            self.puts - earlier.puts,
            self.gets - earlier.gets,
            self.put_bytes - earlier.put_bytes,
            self.got_bytes - earlier.got_bytes,
        )


class RequestCount:
    """Counts the requests of this process; any thread may make some."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._puts = self._gets = self._put_bytes = self._got_bytes = 0

    def wrote(self, num_bytes: int, requests: int = 1) -> None:
        """Note requests that write or list."""
        with self._lock:
            self._puts += requests
            self._put_bytes += num_bytes

    def read(self, num_bytes: int, requests: int = 1) -> None:
        """Note requests that read."""
        with self._lock:
            self._gets += requests
            self._got_bytes += num_bytes

    def made(self) -> Made:
        """Return all requests so far."""
        with self._lock:
            return Made(self._puts, self._gets, self._put_bytes, self._got_bytes)


COUNT = RequestCount()
"""The requests of this process for its checkpoints."""
