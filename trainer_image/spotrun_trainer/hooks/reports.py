"""A script's process reports to its agent what was counted, in the same file as `Run`."""

import atexit
import fcntl
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic, perf_counter_ns
from typing import Any, SupportsFloat

from spotrun.wire import Utilization
from spotrun_trainer.hooks.imported import note_imported
from spotrun_trainer.hooks.step_counter import StepCounter
from spotrun_trainer.hooks.time_shares import Moment, Shares, TimeShares, busy_nanoseconds
from spotrun_trainer.process.ipc_files import PROGRESS_FILE
from spotrun_trainer.telemetry.container_usage import Usage
from spotrun_trainer.telemetry.metrics import Metrics
from spotrun_trainer.telemetry.reporter import CALM_SECONDS, Reporter
from spotrun_trainer.telemetry.utilization import IDLE_LOOKS, busiest_gpu

TOTAL_STEPS = "SPOTRUN_TOTAL_STEPS"
_LOCK_FILE = "counts-steps.lock"
_FIRST_LOCK_FILE = "counts-steps-first.lock"
"""The process that torchrun has started holds this lock: it has precedence over its children."""


class Reports:
    """The reports of one process; silent if another process of its worker reports already."""

    def __init__(self, directory: Path, world_number: int, total: int | None) -> None:
        self.counter = StepCounter()
        self._directory = directory
        self._reporter = Reporter(directory, measured=self._measured)
        self._facts: dict[str, Any] = {"world_number": world_number, "total": total}
        self._usage = Usage(os.getppid())
        self._thread = threading.get_ident()
        self._shares = TimeShares()
        self._data = self._busy_with_data = 0
        self._signs = 0
        self._idle_looks = 0
        self._metrics = Metrics()
        self._has_noted_imports = False
        self._lock_file: int | None = None
        self._asked_at = float("-inf")
        self._is_first = os.getpid() == os.getsid(0)  # torchrun's own process of the rank

    def optimizer_stepped(self, optimizer: object, now: int) -> None:
        """Count a step, and report it when it is time to."""
        if self.counter.optimizer_stepped(optimizer, now):
            self._thread = threading.get_ident()
            self.tell()

    def data_fetched(self, waited: int, worked: int) -> None:
        """Count a wait for data: its nanoseconds, and those in which this thread had a CPU."""
        if threading.get_ident() == self._thread:
            self._data += waited
            self._busy_with_data += worked
        self._signs += 1
        self.tell()

    def take_values(self, values: Mapping[str, SupportsFloat]) -> None:
        """Keep the newest values, which are of the present step, until they are reported."""
        self._metrics.take(values, self.counter.step)

    def tell(self, **facts: object) -> None:
        """Write what is known, at most twice a second, from the first step on."""
        self._facts.update(facts)
        if self.counter.counted and self._speaks_for_the_worker():
            self._reporter.update(step=self.counter.step, signs=self._signs, **self._facts)
            if not self._has_noted_imports:
                self._has_noted_imports = True
                note_imported(self._directory)

    def close(self) -> None:
        """Write the last steps."""
        self._asked_at = float("-inf")
        if self._lock_file is not None and self._speaks_for_the_worker():
            self._reporter.close()

    def let_go(self) -> None:
        """Write no more, and let another process report; in a fork the parent still does."""
        atexit.unregister(self.close)
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def withdraw(self) -> None:
        """Stop reporting, and delete the last report: if it never changes, it looks like a hang."""
        if self._lock_file is not None:
            with suppress(OSError):
                (self._directory / PROGRESS_FILE).unlink()
        self.let_go()

    def _speaks_for_the_worker(self) -> bool:
        """Whether no other living process reports: a script's helpers may train something, too."""
        if monotonic() - self._asked_at >= CALM_SECONDS:
            self._asked_at = monotonic()
            if not self._is_first:
                self._ask_as_a_helper()
            elif self._lock_file is None:
                self._lock_file = _locked(self._directory / _FIRST_LOCK_FILE)
        return self._lock_file is not None

    def _ask_as_a_helper(self) -> None:
        first = _locked(self._directory / _FIRST_LOCK_FILE)
        if first is not None:
            os.close(first)
            if self._lock_file is None:
                self._lock_file = _locked(self._directory / _LOCK_FILE)
        elif self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def _measured(self) -> Mapping[str, Any]:
        sample, shares = self._usage.sample(), self._look_at_shares()
        gpu = shares.compute if shares is not None else None
        return {
            **(shares._asdict() if shares is not None else {}),
            "step_seconds": self.counter.step_seconds(),
            "metrics": self._metrics.reported(),
            "utilization": Utilization(
                gpu=0.0 if self._is_gpu_idle() else gpu, cpu=sample.cpu, memory=sample.memory
            ),
        }

    def _look_at_shares(self) -> Shares | None:
        if _has_gpu() or threading.get_ident() != self._thread:
            return None
        busy = busy_nanoseconds()
        if busy is None:
            return None
        return self._shares.take(Moment(perf_counter_ns(), busy, self._data, self._busy_with_data))

    def _is_gpu_idle(self) -> bool:
        self._idle_looks = self._idle_looks + 1 if busiest_gpu() == 0 else 0
        return self._idle_looks >= IDLE_LOOKS


def open_reports(env: Mapping[str, str] = os.environ) -> Reports | None:
    """Open the reports of this process; None in all but a worker's first process."""
    is_first = env.get("LOCAL_RANK", "0") == "0" and "SPOTRUN_WORLD_NUMBER" in env
    if not is_first or not env.get("SPOTRUN_DIR"):
        return None
    world_number, total = int(env["SPOTRUN_WORLD_NUMBER"]), _total(env.get(TOTAL_STEPS, ""))
    reports = Reports(Path(env["SPOTRUN_DIR"]), world_number, total)
    atexit.register(reports.close)
    return reports


def _locked(path: Path) -> int | None:
    """Lock a file and return it; None if another process holds it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def _has_gpu() -> bool:
    """Whether this process uses a GPU; without torch the answer is no."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def _total(text: str) -> int | None:
    return int(text) if text.isdecimal() and int(text) else None
