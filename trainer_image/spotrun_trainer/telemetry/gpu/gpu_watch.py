"""A thread of the agent that watches its worker's GPUs for faults, and for clocks that are low."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from spotrun_trainer.telemetry.gpu.health import (
    bad_memory,
    cause_of_low_clock,
    described,
    fault,
    lost,
)
from spotrun_trainer.telemetry.gpu.nvml import Gpu, Nvml, open_nvml

LOOK_SECONDS = 5.0
SLOW_LOOKS = 3
"""The looks in a row at which a clock must be low for the same cause."""
BUSY_LOOKS = 12
FAULT_SECONDS = 600.0
"""A failure later than this has another cause: processes went on after the fault."""

log = logging.getLogger(__name__)


class GpuWatch:
    """The health of a worker's GPUs, as their driver reports it.

    Calls of a driver may take long when a GPU is broken, so the agent's other threads read results.
    """

    def __init__(
        self,
        open_driver: Callable[[], Nvml | None] = lambda: None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.low_clock = ""
        self.busy: float | None = None  # of the busiest GPU, at its busiest look of the last minute
        self._open_driver = open_driver
        self._clock = clock
        self._nvml: Nvml | None = None
        self._fault: tuple[str, float] | None = None  # the first one, and when it was found
        self._low = dict[str, tuple[str, int]]()  # of a GPU: the cause, and the looks in a row
        self._busy = deque[float](maxlen=BUSY_LOOKS)

    def begin(self) -> "GpuWatch":
        """Watch from now on, where there are GPUs; the driver may take seconds to answer first."""
        threading.Thread(target=self._watch, name="gpus", daemon=True).start()
        return self

    def open(self) -> bool:
        """Open the driver, and check the GPUs' memory; return whether there are any."""
        self._nvml = self._open_driver()
        for gpu in self._gpus:
            self._check_rows(gpu)
        return bool(self._gpus)

    @property
    def fault(self) -> str:
        """The fault of a GPU that may explain a failure now; empty without one."""
        words, at = self._fault or ("", 0.0)
        return words if self._clock() - at <= FAULT_SECONDS else ""

    def look(self, wait_seconds: float) -> None:
        """Wait for a fault; if none comes, look at the use and the clock of each GPU."""
        if self._nvml is None:
            return
        found = self._nvml.wait_for_xid(wait_seconds)
        if found is not None:
            gpu, xid = found
            log.warning("the driver reported Xid %d for %s", xid, gpu.name)
            self._note(fault(gpu, xid))
            return
        self._look_at_use()
        causes = [(gpu, self._cause(gpu)) for gpu in self._gpus]
        for gpu in self._gpus:
            if gpu.is_lost:
                self._note(lost(gpu))
        self.low_clock = next((f"{gpu.name}: {cause}" for gpu, cause in causes if cause), "")

    @property
    def _gpus(self) -> Sequence[Gpu]:
        return self._nvml.gpus if self._nvml is not None else ()

    def _watch(self) -> None:
        if self.open():
            while True:
                self.look(LOOK_SECONDS)

    def _note(self, words: str) -> None:
        if words and not self.fault:
            log.error("%s", words)
            self._fault = words, self._clock()

    def _look_at_use(self) -> None:
        known = [busy for gpu in self._gpus if (busy := gpu.busy()) is not None]
        if known:
            self._busy.append(max(known))
        self.busy = max(self._busy) if len(self._busy) == BUSY_LOOKS else None

    def _check_rows(self, gpu: Gpu) -> None:
        waits, is_bad = gpu.bad_rows()
        if waits:
            log.warning("%s: a bad part of its memory is replaced at the next reset", gpu.name)
        if is_bad:
            self._note(bad_memory(gpu))

    def _cause(self, gpu: Gpu) -> str:
        """Return why its clock has been low at the last looks; empty if it was not."""
        clock = gpu.clock()
        cause = cause_of_low_clock(clock)
        before, looks = self._low.get(gpu.uuid, ("", 0))
        looks = looks + 1 if cause == before else 1
        self._low[gpu.uuid] = cause, looks
        if cause and looks == SLOW_LOOKS:
            log.warning("%s has a low clock, because %s: %s", gpu.name, cause, described(clock))
        return cause if looks >= SLOW_LOOKS else ""


NO_GPUS = GpuWatch()


def watch_gpus() -> GpuWatch:
    """Watch the GPUs of this worker, if it has any."""
    return GpuWatch(open_nvml).begin()
