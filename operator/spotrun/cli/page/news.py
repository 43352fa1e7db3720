"""The messages of one job to one browser: nothing is made or encoded if nothing has changed."""

from collections.abc import Callable
from typing import Protocol

import msgspec

AGES_SECONDS = 5.0
"""Texts such as "4s ago" are updated this often, even if the job stays the same."""


class Followed(Protocol):
    """A followed job."""

    @property
    def version(self) -> tuple[int, int, int, tuple[str, ...]]:
        """Return a value that differs after each change; the notes of the page come last."""

    def view(self) -> object:
        """Return the page of the job, which takes milliseconds to make and to encode."""


class JobNews:
    """The news of a job, for one browser."""

    def __init__(self, followed: Followed, now: Callable[[], float]) -> None:
        self._followed, self._now = followed, now
        self._sent = b""
        self._version: object = None
        self._made_at = float("-inf")

    def message(self) -> bytes | None:
        """Return what must be sent; None if the browser has it already."""
        now, version = self._now(), self._followed.version
        if version == self._version and now - self._made_at < AGES_SECONDS:
            return None
        self._version, self._made_at = version, now
        encoded = msgspec.json.encode({"job": self._followed.view(), "notes": version[-1]})
        if encoded == self._sent:
            return None
        self._sent = encoded
        return b'{"now":%f,%s' % (now, encoded[1:])
