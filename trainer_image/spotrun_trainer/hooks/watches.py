"""The watches over torch's optimizers and data loaders, set when a script imports these.

An error in here ends the watch with one line in the log, never the script.
"""

import functools
import logging
import os
import threading
from collections.abc import Callable
from time import perf_counter_ns, thread_time_ns
from types import ModuleType
from typing import Any, Final

from spotrun_trainer.hooks.reports import Reports, open_reports
from spotrun_trainer.process import threads

log = logging.getLogger(__name__)


class Watch:
    """The watch of this process; it does nothing until an optimizer steps."""

    def __init__(self) -> None:
        self.is_off = False
        self._reports: Reports | None = None
        self._lock = threading.RLock()  # a script may step optimizers in several threads
        self._is_inside = False
        os.register_at_fork(after_in_child=self._is_forked)

    def turn_off(self) -> None:
        """Count no more: the script reports by itself, or the watch has failed."""
        with self._lock:
            self.is_off = True
            reports, self._reports = self._reports, None
            if reports is not None:
                reports.withdraw()

    def optimizer_stepped(self, optimizer: object) -> None:
        """Count a step, if this makes one."""
        if not self.is_off:
            self.guarded(lambda reports: reports.optimizer_stepped(optimizer, perf_counter_ns()))

    def guarded(self, do: Callable[[Reports], None]) -> None:
        """Do something with the reports; an error ends the watch."""
        try:
            with self._lock:
                # A handler of signals runs in the middle of this, or another thread has ended it.
                if self._is_inside or self.is_off:
                    return
                self._is_inside = True
                try:
                    self._do(do)
                finally:
                    self._is_inside = False
        except Exception as error:
            self.turn_off()
            log.warning("steps are no longer counted, the script continues: %r", error)

    def _do(self, do: Callable[[Reports], None]) -> None:
        self._reports = self._reports or open_reports()
        if self._reports is None:
            self.turn_off()
        else:
            do(self._reports)

    @property
    def reports(self) -> Reports | None:
        """None before the first step."""
        return None if self.is_off else self._reports

    def _is_forked(self) -> None:
        """A child of a process that steps has other work; one that was forked earlier may train."""
        self._lock = threading.RLock()
        self._is_inside = False
        if self._reports is not None:
            self.is_off = True
            self._reports.let_go()
            self._reports = None


WATCH: Final = Watch()


def watch_optimizers(module: ModuleType, watch: Watch = WATCH) -> Callable[[], None]:
    """Let all optimizers of torch report their steps; return a function that ends that.

    `module` is torch's own, which may not be fully imported yet.
    """
    import torch  # noqa: PLC0415 - it is being imported: this is called in its middle

    threads.await_gloo_at_exit()

    def stepped(optimizer: object, _args: object, _kwargs: object) -> None:
        watch.optimizer_stepped(optimizer)

    # Not to be compiled into a graph. torch's optimizers use the same function, so it exists.
    hook = torch._disable_dynamo(stepped)  # type: ignore[attr-defined]  # noqa: SLF001 - see above
    end: Callable[[], None] = module.register_optimizer_step_post_hook(hook).remove
    return end


def watch_loaders(module: ModuleType) -> None:
    """Measure the waits for data; a batch is also a sign of life, as in an evaluation."""
    loader = module._BaseDataLoaderIter  # noqa: SLF001 - all its kinds are of this class
    fetch = loader.__next__

    @functools.wraps(fetch)
    def fetch_measured(self: object) -> Any:  # noqa: ANN401 - a batch is anything
        reports = WATCH.reports
        if reports is None:
            return fetch(self)
        began, busy = perf_counter_ns(), thread_time_ns()
        try:
            return fetch(self)
        finally:
            waited, worked = perf_counter_ns() - began, thread_time_ns() - busy
            WATCH.guarded(lambda reports: reports.data_fetched(waited, worked))

    loader.__next__ = fetch_measured
