"""A trace of each worker as lines of JSON, written if SPOTRUN_TRACE names a directory.

A span is `{"t", "span", "seconds"}`, a step `{"t", "step", "compute", "data", "communicate",
"aside"}`, and a moment `{"t", "mark", ...}`; `t` is in seconds since the epoch.
To read them:

    python -m spotrun_trainer.telemetry.trace $SPOTRUN_TRACE/*.jsonl

Standard library only: the agent writes marks as well, and does not need torch for that.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

log = logging.getLogger(__name__)

FILE_BYTES = 32 * 2**20
"""A file that reaches this size replaces the process's older one, so a process keeps up to twice
this."""
_began: float | None = None
_START_TIME = 19  # of what follows the name in /proc/self/stat: field 22 in the count of proc(5)


class Trace:
    """Writes a file for this process; without a directory it does nothing."""

    def __init__(
        self, directory: Path | None, worker: str = "worker", *, file_bytes: int = FILE_BYTES
    ) -> None:
        self.is_on = directory is not None
        self._path = (directory or Path()) / f"trace-{worker}-{os.getpid()}.jsonl"
        self._file_bytes = file_bytes
        self._written = 0
        self._file = -1
        self._epoch = time.time_ns() - time.perf_counter_ns()
        self._facts = {"worker": worker, "pid": os.getpid()}
        self.mark("started", began=process_began())

    def span(self, activity: str, begun: int, ended: int) -> None:
        """Write a span, with times of `time.perf_counter_ns`."""
        if self.is_on:
            begun_at, seconds = (self._epoch + begun) * 1e-9, (ended - begun) * 1e-9
            self._write({"t": begun_at, "span": activity, "seconds": seconds})

    def step(self, number: int, seconds: Mapping[str, float]) -> None:
        """Write that a step is done, with its seconds by activity."""
        if self.is_on:
            self._write({"t": time.time(), "step": number, **seconds})

    def mark(self, event: str, **facts: object) -> None:
        """Write that an event happened now."""
        if self.is_on:
            self._write({"t": time.time(), "mark": event, **self._facts, **facts})

    def close(self) -> None:
        """Write no more."""
        self.is_on = False
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, line: Mapping[str, object]) -> None:
        # One write for a line, without a buffer, so that nothing is lost if the process is killed.
        content = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        try:
            if self._file < 0 or self._written + len(content) > self._file_bytes:
                self._open()
            os.write(self._file, content)
        except OSError as error:
            log.warning("the trace ends here, because %s cannot be written: %s", self._path, error)
            self.close()
        self._written += len(content)

    def _open(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._path.replace(self._path.with_suffix(".older.jsonl"))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        self._written = 0


def open_trace(env: Mapping[str, str] = os.environ) -> Trace:
    """Return the trace that the environment asks for; by default one that does nothing."""
    directory = env.get("SPOTRUN_TRACE")
    rank = env.get("LOCAL_RANK")
    worker = env.get("SPOTRUN_WORKER", "worker")
    return Trace(
        Path(directory) if directory else None, worker if rank is None else f"{worker}.{rank}"
    )


def begin() -> None:
    """Count this process as started now, because so far it has only waited."""
    global _began  # noqa: PLW0603 - of the process, as its start is
    _began = time.time()


def process_began() -> float:
    """Return the start time of this process, in seconds since the epoch, to 10 ms."""
    if _began is not None:
        return _began
    try:
        stat = Path("/proc/self/stat").read_text()
        ticks = int(stat.rpartition(")")[2].split()[_START_TIME])
        since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, ValueError, AttributeError):  # not a Linux
        return time.time()
    return time.time() - since_boot + ticks / os.sysconf("SC_CLK_TCK")


def main(arguments: Sequence[str]) -> int:
    """Print where the time went."""
    from spotrun_trainer.telemetry.timeline import read, report  # noqa: PLC0415 - for readers only

    if not arguments:
        print(
            "name the files of a trace: python -m spotrun_trainer.telemetry.trace FILE...",
            file=sys.stderr,
        )
        return 2
    try:
        lines = [line for name in arguments for line in read(Path(name))]
    except (OSError, ValueError) as error:
        print(f"this is not a trace: {error}", file=sys.stderr)
        return 1
    print(report(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
