"""The two threads that talk to the operator: one polls for answers, the other reports."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from spotrun.wire import Answer, Report, write_report
from spotrun_trainer.agent.operator_connection import JobGoneError, NoAnswerError
from spotrun_trainer.agent.state import State

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.05
"""The pause between checks of progress.json; each of them is one stat."""
CALM_SECONDS = 2.0
"""The pause between reports that contain nothing but progress."""
BEHIND_SECONDS = 0.2
"""The pause before a replica that is behind is polled again: it does not hold the poll open."""
_BUG_PAUSE_SECONDS = 1.0


class Operator(Protocol):
    """The operator, as one thread sees it."""

    def poll(self, seen: str) -> Answer:
        """Wait for a newer answer; raises NoAnswerError."""

    def report(self, body: bytes) -> Answer:
        """Report; raises NoAnswerError."""

    def pause_seconds(self, error: NoAnswerError) -> float:
        """Return the pause before another attempt."""


def is_due(report: Report, sent: Report | None, age_seconds: float) -> bool:
    """Whether to report now: at once if something urgent has changed."""
    if sent is None or report.news != sent.news:
        return True
    return report != sent and age_seconds >= CALM_SECONDS


class OperatorThreads:
    """Report to the operator and keep the state up to date, until closed."""

    def __init__(self, state: State, polls: Operator, reports: Operator) -> None:
        self._state = state
        self._polls = polls
        self._reports = reports
        self._sent: Report | None = None  # None also if it may have been lost
        self._num_losses = (
            0  # how often contact was lost: the next operator that answers may know nothing
        )
        self._sent_at = 0.0
        self._closing = threading.Event()
        for name, turn in (("polls", self._poll), ("reports", self._report)):
            threading.Thread(
                target=self._run, args=(turn,), name=f"spotrun-{name}", daemon=True
            ).start()

    def flush(self, seconds: float) -> bool:
        """Wait until everything urgent is reported; False if time ran out."""
        end = time.monotonic() + seconds
        with self._state.news:
            while True:
                self._state.look()
                if self._sent is not None and self._sent.news == self._state.report().news:
                    return True
                if time.monotonic() > end:
                    return False
                self._state.news.wait(LOOK_SECONDS)

    def close(self) -> None:
        """Stop reporting; each thread ends after its present request."""
        self._closing.set()

    def _run(self, turn: Callable[[], None]) -> None:
        while not self._closing.is_set():
            try:
                turn()
            except Exception:  # a bug, or a full disk: without this thread the worker is lost
                log.exception("unexpected error in the agent; the agent continues")
                self._closing.wait(_BUG_PAUSE_SECONDS)

    def _poll(self) -> None:
        try:
            answer = self._polls.poll(self._state.version)
        except JobGoneError:
            self._state.job_is_gone()
            self._closing.wait(CALM_SECONDS)
        except NoAnswerError as error:
            self._sent = None
            self._num_losses += 1
            self._closing.wait(self._polls.pause_seconds(error))
        else:
            if not self._state.take(answer):
                self._closing.wait(BEHIND_SECONDS)

    def _report(self) -> None:
        with self._state.news:
            self._state.look()
            report = self._state.report()
            if not is_due(report, self._sent, time.monotonic() - self._sent_at):
                self._state.news.wait(LOOK_SECONDS)
                return
        num_losses = self._num_losses
        try:
            answer = self._reports.report(write_report(report))
        except NoAnswerError as error:
            self._sent = None
            self._closing.wait(self._reports.pause_seconds(error))
            return
        self._sent_at = time.monotonic()
        self._sent = report if num_losses == self._num_losses else None
        self._state.take(answer)
