"""A profile on request: torch's profiler over a few steps of one process.

The order comes with the operator's answers, as one for a checkpoint does. What happens is logged,
in lines that begin with `profile` and the name of the order; a thread writes the trace beside the
checkpoints. Without an order a step only checks the last answer.
"""

import gzip
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from spotrun.wire import Profile
from spotrun_trainer.process import threads
from spotrun_trainer.telemetry.console import say

MOST_ROWS = 15
CLOSE_SECONDS = 30.0
"""Writing the trace of many steps takes this long; a process that ends waits for it."""
_NAME_CHARACTERS = 48

Keep = Callable[[str, bytes], str]
"""Keeps a file beside the checkpoints, and returns where it lies."""


class _Recording(NamedTuple):
    order: Profile
    first: int
    profiler: Any  # torch's has no types


class Profiling:
    """Follows orders to profile, in the process that they name."""

    def __init__(
        self,
        wanted: Callable[[], Profile | None],
        keep: Keep | None,
        *,
        device: torch.device,
        tell: Callable[[str], object] = say,
    ) -> None:
        """`wanted` returns the newest order; one that exists already is not for this process."""
        self._wanted = wanted
        self._keep = keep
        self._device = device
        self._tell = tell
        self._followed = wanted()
        self._recording: _Recording | None = None
        self._writing: Any = None  # a thread

    def begin_step(self, number: int, *, worker: int, is_first: bool) -> None:
        """Begin or end a recording before a step of this worker's process."""
        if self._recording is not None:
            if number >= self._recording.first + self._recording.order.steps:
                self._end(number - 1)
            return
        order = self._wanted()
        if order is None or order == self._followed:
            return
        self._followed = order
        if is_first and order.rank == worker:
            self._begin(order, number)

    def close(self, last: int) -> None:
        """End a recording after the last step, and wait until it is written."""
        if self._recording is not None:
            self._end(last)
        if self._writing is not None:
            self._writing.join(CLOSE_SECONDS)

    def _begin(self, order: Profile, number: int) -> None:
        activities = [ProfilerActivity.CPU]
        if self._device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        try:
            profiler = profile(activities=activities)
            profiler.start()
        except Exception as error:  # such as in a script that profiles itself
            self._fail(order, error)
            return
        last = number + order.steps - 1
        self._say(order, f"rank {order.rank} records steps {number:,} to {last:,}")
        self._recording = _Recording(order, number, profiler)

    def _end(self, last: int) -> None:
        recording, self._recording = self._recording, None
        assert recording is not None, "it records"
        try:
            recording.profiler.stop()
        except Exception as error:
            self._fail(recording.order, error)
            return
        self._writing = threads.start(
            lambda: self._write(recording, last), name="profile", seconds=CLOSE_SECONDS
        )

    def _write(self, recording: _Recording, last: int) -> None:
        order = recording.order
        try:
            for line in table(recording.profiler, is_cuda=self._device.type == "cuda"):
                self._say(order, line)
            name = f"profile-step-{recording.first}-to-{last}-rank-{order.rank}.json.gz"
            if self._keep is None:
                self._say(
                    order, "the trace is not kept, because the job has no place for checkpoints"
                )
            else:
                content = trace(recording.profiler)
                where = self._keep(name, content)
                self._say(order, f"trace of {len(content) / 1e6:.1f} MB: {where}")
            self._say(order, "done")
        except Exception as error:
            self._fail(order, error)

    def _fail(self, order: Profile, error: Exception) -> None:
        first = next(iter(str(error).splitlines()), "") or type(error).__name__
        self._say(order, f"failed: {first}")

    def _say(self, order: Profile, sentence: str) -> None:
        self._tell(f"profile {order.asked}: {sentence}")


def trace(profiler: Any) -> bytes:  # noqa: ANN401 - torch's has no types
    """Return the trace, as https://ui.perfetto.dev and chrome://tracing read it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        return gzip.compress(path.read_bytes(), compresslevel=3)


def table(profiler: Any, *, is_cuda: bool) -> Iterator[str]:  # noqa: ANN401
    """Yield the operators with the most time of their own, in descending order."""
    where = "GPU" if is_cuda else "CPU"

    def own(one: Any) -> float:  # noqa: ANN401
        return float(one.self_device_time_total if is_cuda else one.self_cpu_time_total)

    found = sorted(profiler.key_averages(), key=own, reverse=True)
    total = sum(map(own, found))
    yield f"{'share':>6}  {where + ' ms':>10}  {'calls':>8}  operator (its own {where} time)"
    for one in found[:MOST_ROWS]:
        if not own(one):
            break
        name = one.key[:_NAME_CHARACTERS]
        yield f"{own(one) / total:6.1%}  {own(one) / 1000:10.2f}  {one.count:8,}  {name}"
