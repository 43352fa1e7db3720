"""Passes logged values to trackers, in a thread of its own: the training never waits for one.

If a tracker fails, the log says so once, and it gets nothing more. If trackers are slower than the
training, values are left out; steps never wait.
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Full, Queue

from spotrun_trainer.telemetry.trackers.tracker import Logged, Tracker

MOST_WAITING = 10_000
"""Records that wait for trackers: minutes of a training, and some megabytes."""
CLOSE_SECONDS = 10.0
"""A pod that is told to end has little more time."""
FLUSH_SECONDS = 2.0
_EVERY_STEP = 100_000

Make = Callable[[], Tracker]
Choose = Callable[[], Mapping[str, Make]]


@dataclass(frozen=True)
class _Record:
    step: int
    time: float
    values: Mapping[str, Logged]


class _AtWork:
    """A thread, and the records that wait for it."""

    def __init__(self) -> None:
        self.queue: Queue[_Record | None] = Queue(MOST_WAITING)
        self.is_ending = threading.Event()
        self.thread = threading.current_thread()

    def end(self) -> None:
        """Let the thread end after the waiting records."""
        self.is_ending.set()
        with suppress(Full):  # then the thread does not wait for a record
            self.queue.put_nowait(None)

    def next_before(self, at: float) -> _Record | None:
        """Return the next record, None to check again; raises Empty at a time, or at the end."""
        if self.is_ending.is_set():
            return self.queue.get_nowait()
        wait = at - time.monotonic()
        return self.queue.get(timeout=max(0.0, wait) if wait < float("inf") else None)


class Recorder:
    """Records the steps of this process while it is rank 0."""

    def __init__(self, choose: Choose, say: Callable[[str], object]) -> None:
        self._choose = choose
        self._say = say
        self._at_work: _AtWork | None = None
        self._has_told = False
        self._has_trackers = True  # as far as is known

    def record(self, step: int, values: Mapping[str, object], *, is_kept: bool = False) -> None:
        """Record the values of a step that is done; of very many steps some are left out."""
        if not (self._has_trackers and (is_kept or is_recorded(step))):
            return
        if self._at_work is None:
            self._at_work = _AtWork()
            run, now = self._run, self._at_work
            now.thread = threading.Thread(target=run, args=(now,), name="trackers", daemon=True)
            now.thread.start()
        try:
            self._at_work.queue.put_nowait(_Record(step, time.time(), _fetched(values)))
        except Full:
            self._tell_once("trackers are slower than the training: some values are left out")

    def release(self) -> None:
        """Let trackers write what waits, and end: another process is rank 0 now."""
        at_work, self._at_work = self._at_work, None
        if at_work is not None:
            at_work.end()

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Do the same, and wait for it, at most this long."""
        at_work = self._at_work
        self.release()
        if at_work is None:
            return
        at_work.thread.join(seconds)
        if at_work.thread.is_alive():
            self._tell_once(f"trackers took longer than {seconds:g} s to end: values may be lost")

    def _tell_once(self, sentence: str) -> None:
        if not self._has_told:
            self._has_told = True
            self._say(sentence)

    def _run(self, at_work: "_AtWork") -> None:
        trackers, last, flush_at = self._made(), None, float("inf")
        while trackers:
            try:
                record = at_work.next_before(flush_at)
            except Empty:
                self._each(trackers, lambda one: one.flush())
                flush_at = float("inf")
                if at_work.is_ending.is_set():
                    break
                continue
            if record is None:
                continue
            self._take(trackers, record, has_begun=last is not None and record.step > last)
            last, flush_at = record.step, min(flush_at, time.monotonic() + FLUSH_SECONDS)
        self._has_trackers = bool(trackers)
        self._each(trackers, lambda one: one.close())

    def _take(self, trackers: dict[str, Tracker], one: _Record, *, has_begun: bool) -> None:
        if not has_begun:
            self._each(trackers, lambda tracker: tracker.begin(one.step))
        self._each(trackers, lambda tracker: tracker.record(one.step, one.time, one.values))

    def _made(self) -> dict[str, Tracker]:
        made: dict[str, Tracker] = {}
        for name, make in self._choose().items():
            try:
                made[name] = make()
            except Exception as error:  # the training continues after any error of a library
                self._say(
                    f"the tracker {name} cannot start, and gets no values: {_in_a_line(error)}"
                )
        return made

    def _each(self, trackers: dict[str, Tracker], do: Callable[[Tracker], None]) -> None:
        for name, tracker in [*trackers.items()]:
            try:
                do(tracker)
            except Exception as error:
                del trackers[name]
                with suppress(Exception):
                    tracker.close()
                self._say(
                    f"the tracker {name} failed, and gets no more values: {_in_a_line(error)}"
                )


def is_recorded(step: int) -> bool:
    """Whether a step is recorded: all up to 100,000, then every 10th, from a million every 100th.

    It depends on the step alone, so that a restart records the same ones.
    """
    every = 1
    while step > _EVERY_STEP * every:
        every *= 10
    return step % every == 0


def _fetched(values: Mapping[str, object]) -> dict[str, Logged]:
    """Return plain values, as they are now; others are left out, and the console says so."""
    fetched: dict[str, Logged] = {}
    for name, value in values.items():
        if isinstance(value, (str, int, float)):
            fetched[name] = value
            continue
        with suppress(Exception):  # a script's own type may raise anything
            fetched[name] = float(value)  # type: ignore[arg-type]
    return fetched


def _in_a_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
