"""Saving during training: a call that returns at once, and a thread that stages, writes, completes.

The thread has a lower priority than training: on a CPU both use the same cores, and one slowed-down
thread makes the whole step slow. An urgent save needs no higher priority, because then training
waits and leaves the cores free.
"""

import os
import sys
import threading
import time
from dataclasses import dataclass

from spotrun_trainer.checkpoint.errors import CheckpointError
from spotrun_trainer.checkpoint.format.completion import (
    SLOWEST_LOOK_SECONDS,
    Completion,
    is_complete_already,
    pause_seconds,
    turn_of,
)
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.storage import Storage
from spotrun_trainer.checkpoint.format.writer import Part, write_part
from spotrun_trainer.checkpoint.host_memory import bytes_of
from spotrun_trainer.checkpoint.save_duration import SaveSpeed, Stopwatch
from spotrun_trainer.checkpoint.staging import HostBuffer, Staging
from spotrun_trainer.process import threads
from spotrun_trainer.state.flatten import Flat

NICER = 10
"""A tenth of the share of a core that a training thread gets."""
FIRST_LOOK_SECONDS = 0.01
AWAITED_SECONDS = 2.0
"""A caller that waits in short intervals asks again within this time."""
LEFT_SECONDS, LEFT_TURNS = 120.0, 2
"""Ranks of these turns may still complete a checkpoint of the previous world for this long.

A worker that was told to leave waits for it, and 120 s is the longest notice of a cloud.
"""
EXIT_SECONDS = 10.0
"""A write that takes longer hangs, and must not stop a failed process from reporting its
failure."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint that became durable, and what it cost."""

    name: str
    bytes: int  # of this rank's part
    stall_seconds: float  # time that training waited, in the call and before the next update
    upload_seconds: float  # from the call until it was complete


@dataclass
class _Job:
    part: Part
    staging: Staging
    began: float
    stall_seconds: float
    patient_until: float = 0.0  # set once its own part is written
    is_left: bool = False  # another world has begun: it is completed if possible, without a message


class Saver:
    """One rank's saves: it stages and writes one at a time; any number wait for other ranks."""

    def __init__(self, place: Storage, patience_seconds: float, *, is_shared: bool = True) -> None:
        """Save into a place; if it is not shared, the other ranks' parts are elsewhere."""
        self._place = place
        self._is_shared = is_shared
        self._patience_seconds = patience_seconds
        self._buffer = HostBuffer()
        self._speed = SaveSpeed()
        self._changed = threading.Condition()  # guards the fields below
        self._writing: _Job | None = None
        self._awaited: list[tuple[_Job, Completion]] = []
        self._outcomes: list[Saved | CheckpointError] = []
        self._thread: threading.Thread | None = None
        self._closing = False
        self._awaited_until = 0.0  # a caller waits, so checks are more frequent

    def save(self, part: Part, flat: Flat) -> None:
        """Begin to save; waits until the previous part is written."""
        began = time.monotonic()
        with self._changed:
            self._changed.wait_for(lambda: self._writing is None)
            # From here on a world may acknowledge this checkpoint, and then remove older ones.
            self._awaited = [entry for entry in self._awaited if not entry[0].is_left]
            if any(job.part.name == part.name for job, _ in self._awaited):
                return  # already written: the other ranks' parts are missing
            try:
                staging = Staging(flat, part.slices, self._buffer)
            except (RuntimeError, MemoryError) as error:
                self._outcomes.append(CheckpointError(_no_memory(part, error)))
                return
            self._writing = _Job(part, staging, began, time.monotonic() - began)
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threads.start(
                self._run, name="checkpoint", end=self._end, seconds=EXIT_SECONDS
            )

    @property
    def is_writing(self) -> bool:
        """Whether another save would wait for the previous one."""
        return self._writing is not None

    def before_change(self) -> None:
        """Return when the tensors of the save in flight may change."""
        if job := self._writing:
            began = time.monotonic()
            job.staging.join()
            job.stall_seconds += time.monotonic() - began

    def finished(self) -> Saved | None:
        """Return the newest that became durable since the last call; raises each error once."""
        with self._changed:
            self._raise_error()
            saved, self._outcomes = [one for one in self._outcomes if isinstance(one, Saved)], []
        return max(saved, key=lambda one: Name.parse(one.name), default=None)

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is in flight; raises a CheckpointError as `finished` does."""
        self.before_change()
        with self._changed:
            now, was_until = time.monotonic(), self._awaited_until
            self._awaited_until = now + seconds + AWAITED_SECONDS
            if was_until < now:  # the thread would have checked later
                self._changed.notify_all()
            done = self._changed.wait_for(lambda: not self._is_in_flight(), seconds)
            self._raise_error()
        return done

    def completed(self, name: str) -> None:
        """Note that a checkpoint is complete, as another rank saw; older ones are not needed."""
        newest = Name.parse(name)
        with self._changed:
            known = [job for job, _ in self._awaited if job.part.name == newest and not job.is_left]
            if known:
                self._awaited = [one for one in self._awaited if one[0].part.name > newest]
                self._outcomes += map(_saved, known)
                self._changed.notify_all()

    def wait_no_more(self) -> None:
        """Stop waiting for other ranks' parts of the saves that were begun.

        These parts may still come, from a process that was told to leave and waits for all. Then
        the first ranks complete the checkpoint.
        """
        with self._changed:
            for job in [self._writing, *(job for job, _ in self._awaited)]:
                if job is not None:
                    job.is_left = True
                    job.patient_until = min(job.patient_until, time.monotonic() + LEFT_SECONDS)
            self._awaited = [entry for entry in self._awaited if _is_worth_a_look(entry[0])]

    def seconds_for(self, size: int) -> float:
        """Estimate the seconds for a part of `size` bytes, after the one in flight."""
        job = self._writing
        return self._speed.seconds_for(size + (job.part.bytes if job else 0))

    def close(self) -> None:
        """End the thread after the part in flight is written."""
        self._end()
        if self._thread is not None:
            self._thread.join()

    def _is_in_flight(self) -> bool:
        return self._writing is not None or any(not job.is_left for job, _ in self._awaited)

    def _end(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def _raise_error(self) -> None:
        for outcome in self._outcomes:
            if isinstance(outcome, CheckpointError):
                self._outcomes.remove(outcome)
                raise outcome

    def _run(self) -> None:
        _yield_to_training()
        looked_at, look_seconds = 0.0, FIRST_LOOK_SECONDS
        while True:
            with self._changed:
                while not (self._writing or self._closing):
                    seconds = self._seconds_to_look(looked_at, look_seconds)
                    if seconds is not None and seconds <= 0:
                        break
                    self._changed.wait(seconds)
                job = self._writing
            if self._closing and job is None:
                self._look(is_ending=True)
                return
            look_seconds = min(2 * look_seconds, SLOWEST_LOOK_SECONDS)
            if job:
                self._write(job)
                look_seconds = FIRST_LOOK_SECONDS
            if job is None or turn_of(job.part.rank, job.part.size) == 0:
                self._look()
            looked_at = time.monotonic()

    def _seconds_to_look(self, looked_at: float, least: float) -> float | None:
        """Return the time until the next check; None if there is nothing to check."""
        if not self._awaited:
            return None
        now = time.monotonic()
        is_awaited = now < self._awaited_until
        pauses = [
            pause_seconds(job.part.rank, job.part.size, is_awaited=is_awaited)
            for job, _ in self._awaited
        ]
        return looked_at + max(least, min(pauses)) - now

    def _write(self, job: _Job) -> None:
        stopwatch, completion = Stopwatch(), None
        outcome: Saved | CheckpointError | None = None
        try:
            memory = job.staging.finish()
            self._place.make(job.part.name)
            if is_complete_already(self._place, job.part):
                outcome = _saved(job)
            else:
                manifest = write_part(self._place, job.part, bytes_of(memory))
                if self._is_shared:
                    completion = Completion(self._place, job.part, manifest, now=time.monotonic())
                else:
                    outcome = _saved(job)
                self._speed.note(job.part.bytes, stopwatch.unhindered_seconds())
        except Exception as error:  # any error at all: finished() raises it
            outcome = _failed(job, self._place, error)
        seconds = LEFT_SECONDS if job.is_left else self._patience_seconds
        job.patient_until = time.monotonic() + seconds
        with self._changed:
            self._writing = None
            self._awaited += [(job, completion)] if completion and _is_worth_a_look(job) else []
            self._outcomes += [outcome] if outcome else []
            self._changed.notify_all()

    def _look(self, *, is_ending: bool = False) -> None:
        outcomes = [
            (entry, self._outcome(*entry, is_ending=is_ending)) for entry in list(self._awaited)
        ]
        with self._changed:
            for entry, outcome in outcomes:
                if outcome is not None and entry in self._awaited:  # or another rank reported it
                    self._awaited.remove(entry)
                    self._outcomes += [] if entry[0].is_left else [outcome]
            self._changed.notify_all()

    def _outcome(
        self, job: _Job, completion: Completion, *, is_ending: bool
    ) -> Saved | CheckpointError | None:
        try:
            if completion.reached(time.monotonic(), is_ending=is_ending):
                return _saved(job)
        except Exception as error:  # any error at all: without this thread nothing is saved
            return _failed(job, self._place, error)
        if time.monotonic() < job.patient_until:
            return None
        missing = None if job.is_left else completion.missing
        why = "no rank has completed it" if missing is None else f"rank {missing} has not written"
        what = "" if missing is None else " its part"
        return CheckpointError(
            f"{job.part.name} is not complete: {why}{what} within {self._patience_seconds:.0f} s "
            f"of rank {job.part.rank}; do all ranks reach the same directory?"
        )


def _is_worth_a_look(job: _Job) -> bool:
    return not job.is_left or turn_of(job.part.rank, job.part.size) <= LEFT_TURNS


def _saved(job: _Job) -> Saved:
    upload_seconds = time.monotonic() - job.began
    return Saved(str(job.part.name), job.part.bytes, job.stall_seconds, upload_seconds)


def _failed(job: _Job, place: Storage, error: Exception) -> CheckpointError:
    if isinstance(error, CheckpointError):
        return error
    why = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
    file = f" ({error.filename})" if isinstance(error, OSError) and error.filename else ""
    failure = CheckpointError(
        f"{job.part.name} could not be written to {place.where()}: {why}{file}; training continues "
        "without it: make the place writable and large enough, or choose another"
    )
    failure.__cause__ = error
    return failure


def _no_memory(part: Part, error: Exception) -> str:
    return (
        f"{part.name} could not be saved: the host has no memory for a copy of {part.bytes} bytes "
        f"({error}); give the worker more memory, or more workers"
    )


def _yield_to_training() -> None:
    if sys.platform != "linux":  # on other systems it would apply to the whole process
        return
    thread = threading.get_native_id()
    niceness = os.getpriority(os.PRIO_PROCESS, thread) + NICER
    os.setpriority(os.PRIO_PROCESS, thread, min(niceness, 19))
