"""A signal for scripts that want one when a node of their job is about to go away."""

import logging
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from spotrun.wire import Notice
from spotrun_trainer.agent.processes.sessions import handles, leaders

log = logging.getLogger(__name__)

VARIABLE = "SPOTRUN_NOTICE_SIGNAL"


class NoticeSignal:
    """Sends it once for each notice and process, to those that have a handler for it."""

    def __init__(
        self,
        number: signal.Signals | None,
        processes: Callable[[], Iterable[int]] = leaders,
    ) -> None:
        self._number = number
        self._processes = processes
        self._notice: Notice | None = None
        self._is_withdrawn = False
        self._told = set[int]()

    def look(self, notice: Notice | None) -> None:
        """Tell the processes that have not been told of this notice yet; to be called often."""
        if self._number is None:
            return
        if notice is None:
            self._is_withdrawn = True
            return
        if not self._is_known(notice):
            self._notice, self._told = notice, set()
        self._is_withdrawn = False
        for pid in self._processes():
            # Without a handler it would end the process; the handler may be set later.
            if pid not in self._told and handles(pid, self._number):
                with suppress(ProcessLookupError):
                    os.kill(pid, self._number)
                self._told.add(pid)

    def _is_known(self, notice: Notice) -> bool:
        """Whether this is the last notice again, even if its end is later now.

        Where a cloud tells no end, an operator that has just started counts from when it sees the
        notice itself.
        """
        known = self._notice
        if known is None or self._is_withdrawn:
            return notice == known
        return notice.reason == known.reason and notice.at >= known.at


def signal_asked_for(environment: Mapping[str, str]) -> signal.Signals | None:
    """Return the signal that the environment names; None if it names none that there is."""
    name = environment.get(VARIABLE, "")
    if not name:
        return None
    try:
        return signal.Signals[name]
    except KeyError:
        log.warning("%s is no signal: scripts get none on a notice (%s)", name, VARIABLE)
        return None
