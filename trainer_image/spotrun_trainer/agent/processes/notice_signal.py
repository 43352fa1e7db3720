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
    """Sends the signal once for each notice to each process that has a handler for it."""

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
        """Send it to the processes that have not got it for this notice; must be called often."""
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
        """Whether this is the same notice as the last one, even if its end is later now.

        If the cloud names no end, an operator that has just started counts from the moment at which
        it sees the notice.
        """
        known = self._notice
        if known is None or self._is_withdrawn:
            return notice == known
        return notice.reason == known.reason and notice.at >= known.at


def signal_asked_for(environment: Mapping[str, str]) -> signal.Signals | None:
    """Return the signal that the environment names; None if it names no existing one."""
    name = environment.get(VARIABLE, "")
    if not name:
        return None
    try:
        return signal.Signals[name]
    except KeyError:
        log.warning(
            "%s is not the name of a signal, so scripts get none on a notice (%s)", name, VARIABLE
        )
        return None
