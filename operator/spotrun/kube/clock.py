"""The time of day that decisions may rely on, though a machine's clock may jump.

There are three sources: this machine's wall clock, its monotonic clock, which cannot jump, and the
Date of each answer of the API server. Time continues with the monotonic clock. A jump of the wall
clock counts only if the API server's clock has jumped as well. If the two disagree from the start,
the API server's time counts, because objects have times of the API server.
"""

import datetime
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

log = logging.getLogger(__name__)

STEP_SECONDS = 2.0
"""A larger sudden change of the wall clock is a jump. Time daemons (NTP) slew by less."""
AGREE_SECONDS = 10.0
"""Clocks differ by no more than this if they agree; maintained ones differ by milliseconds."""
SETTLE_SECONDS = 600.0
"""An API server that disagrees must keep one time for this long before its time is used."""
_LOOK_SECONDS = 1.0  # how often a Date is read: its unit is a second
_WARN_SECONDS = 60.0  # at most one warning in this time says that clocks disagree


def boot_seconds() -> float:
    """Return seconds that also count while the machine sleeps, because a lease ends meanwhile."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def utc_now() -> datetime.datetime:
    """Return the time of day by this machine."""
    return datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class _Line:
    """A time, and the monotonic clock's value then: all later times follow from these two."""

    moment: datetime.datetime
    seconds: float

    def at(self, seconds: float) -> datetime.datetime:
        return self.moment + datetime.timedelta(seconds=seconds - self.seconds)


class Clock:
    """Tells the time; `compare` must be called with every answer of the API server."""

    def __init__(
        self,
        wall: Callable[[], datetime.datetime] = utc_now,
        monotonic: Callable[[], float] = boot_seconds,
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._line = _Line(wall(), monotonic())
        self._is_confirmed = False  # by an answer
        self._other: _Line | None = None  # the API server's time, if it differs from ours
        self._looked_at = float("-inf")
        self._warned_at = float("-inf")

    @property
    def is_sure(self) -> bool:
        """Whether the time is certain enough for decisions that cannot be undone."""
        return self._is_confirmed and self._other is None

    def now(self) -> datetime.datetime:
        """The time of day."""
        wall, seconds = self._wall(), self._monotonic()
        expected = self._line.at(seconds)
        if abs((wall - expected).total_seconds()) > STEP_SECONDS:
            return expected
        self._line = _Line(wall, seconds)
        return wall

    def compare(self, date: str | None, sent_at: float) -> None:
        """Compare with an answer's Date; `sent_at` is the monotonic time of its request."""
        seconds = self._monotonic()
        if seconds - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = seconds
        date_header = _read(date)
        if date_header is None:  # there is no other clock to compare with
            self._is_confirmed = True
            return
        took_seconds = seconds - sent_at
        if _agree(self._wall(), date_header, took_seconds):
            self._set(_Line(self._wall(), seconds))
        elif self._is_confirmed and _agree(self._line.at(seconds), date_header, took_seconds):
            self._other = None  # only the wall clock has jumped
        else:
            self._doubt(date_header, seconds, took_seconds)

    def _doubt(self, date_header: datetime.datetime, seconds: float, took_seconds: float) -> None:
        """Note that the API server has another time: ours counts until that has lasted."""
        other = self._other
        if other is None or not _agree(other.at(seconds), date_header, took_seconds):
            self._warn(date_header, seconds)
            self._other = _Line(date_header, seconds)
            if not self._is_confirmed:
                self._line = self._other
        elif seconds - other.seconds >= SETTLE_SECONDS:
            log.warning("the API server's clock still differs: its time is used from now on")
            self._set(_Line(other.at(seconds), seconds))

    def _warn(self, date_header: datetime.datetime, seconds: float) -> None:
        """Log a warning, but not at each answer if several API servers disagree."""
        if seconds - self._warned_at < _WARN_SECONDS:
            return
        self._warned_at = seconds
        log.warning(
            "this machine's clock says %s, the API server's %s: until they agree the operator "
            "deletes no job, and fails none for its budget or deadline; set the clocks (chrony, "
            "NTP)",
            f"{self._wall():%Y-%m-%dT%H:%M:%SZ}",
            f"{date_header:%Y-%m-%dT%H:%M:%SZ}",
        )

    def _set(self, line: _Line) -> None:
        self._line, self._other, self._is_confirmed = line, None, True


def _agree(moment: datetime.datetime, date_header: datetime.datetime, took_seconds: float) -> bool:
    """Whether the server's Date fits: it is a whole second between the request and the answer."""
    ahead_seconds = (moment - date_header).total_seconds()
    return -AGREE_SECONDS <= ahead_seconds <= took_seconds + 1 + AGREE_SECONDS


def _read(date: str | None) -> datetime.datetime | None:
    if date is None:
        return None
    try:
        return parsedate_to_datetime(date)
    except ValueError:
        return None
