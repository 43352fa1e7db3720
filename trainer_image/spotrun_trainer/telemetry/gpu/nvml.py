"""NVIDIA's management library NVML, as far as it is needed, through its C interface.

It comes with the driver and opens no context on a GPU. NVIDIA's Python module for it is in few
images, and an agent would hold 6 MB more for it.
"""

import ctypes
import time
from collections.abc import Iterator
from ctypes import byref, c_int, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
SUCCESS, TIMEOUT, GPU_IS_LOST = 0, 10, 15
XID_EVENTS = 0x8
SM_CLOCK = 1
GPU_TEMPERATURE = 0
_TEXT = 96  # bytes, which is NVML's own limit for an identifier


class Event(ctypes.Structure):
    """An event, as NVML describes it: `nvmlEventData_t`."""

    _fields_ = (
        ("device", c_void_p),
        ("kind", c_ulonglong),
        ("data", c_ulonglong),
        ("instance", c_uint),
        ("compute_instance", c_uint),
    )


class Busy(ctypes.Structure):
    """Shares of a short time, in percent: `nvmlUtilization_t`."""

    _fields_ = (("gpu", c_uint), ("memory", c_uint))


@dataclass(frozen=True)
class Clock:
    """The clock of a GPU's multiprocessors now, and what may explain it; None: not known."""

    mhz: int | None
    most_mhz: int | None
    causes: int  # of a lower clock, as bits
    celsius: int | None
    watts: int | None
    most_watts: int | None


class Gpu:
    """One GPU."""

    def __init__(self, library: Any, handle: c_void_p) -> None:  # noqa: ANN401 - a loaded library
        self.handle = handle
        self._library = library
        self.is_lost = False  # it has stopped to answer the driver
        self.uuid = self._text("nvmlDeviceGetUUID")
        self.serial = self._text("nvmlDeviceGetSerial")

    @property
    def name(self) -> str:
        """A name that no other GPU has, and the number that is printed on it, if it has one."""
        uuid = self.uuid or "a GPU"
        return f"{uuid} (serial number {self.serial})" if self.serial else uuid

    def clock(self) -> Clock:
        """Return its present clock."""
        milliwatts = self._number("nvmlDeviceGetPowerUsage")
        most_milliwatts = self._number("nvmlDeviceGetEnforcedPowerLimit")
        return Clock(
            mhz=self._number("nvmlDeviceGetClockInfo", c_int(SM_CLOCK)),
            most_mhz=self._number("nvmlDeviceGetMaxClockInfo", c_int(SM_CLOCK)),
            causes=self._number("nvmlDeviceGetCurrentClocksThrottleReasons", kind=c_ulonglong) or 0,
            celsius=self._number("nvmlDeviceGetTemperature", c_int(GPU_TEMPERATURE)),
            watts=None if milliwatts is None else round(milliwatts / 1000),
            most_watts=None if most_milliwatts is None else round(most_milliwatts / 1000),
        )

    def busy(self) -> float | None:
        """Return for which share of the last moment some kernel was on the GPU, from 0 to 1.

        A kernel that waits for the network counts as well.
        """
        found = Busy()
        is_known = self._asked("nvmlDeviceGetUtilizationRates", byref(found))
        return float(found.gpu / 100) if is_known else None

    def bad_rows(self) -> tuple[bool, bool]:
        """Return whether a bad row of its memory waits for a reset, and whether one stays bad."""
        counts = [c_uint() for _ in range(4)]  # of replaced rows the first two
        if not self._asked("nvmlDeviceGetRemappedRows", *map(byref, counts)):
            return False, False
        return bool(counts[2].value), bool(counts[3].value)

    def _number(self, function: str, *given: Any, kind: Any = c_uint) -> int | None:  # noqa: ANN401
        found = kind()
        return int(found.value) if self._asked(function, *given, byref(found)) else None

    def _text(self, function: str) -> str:
        text = ctypes.create_string_buffer(_TEXT)
        is_known = self._asked(function, text, c_uint(_TEXT))
        return text.value.decode(errors="replace") if is_known else ""

    def _asked(self, function: str, *given: Any) -> bool:  # noqa: ANN401 - C's arguments
        call = getattr(self._library, function, None)  # an old driver may not have it
        code = call(self.handle, *given) if call is not None else None
        self.is_lost = self.is_lost or code == GPU_IS_LOST
        return code == SUCCESS


class Nvml:
    """The GPUs that this process can see, and their events."""

    def __init__(self, library: Any) -> None:  # noqa: ANN401 - a loaded library
        self._library = library
        self.gpus = [Gpu(library, handle) for handle in _handles(library)]
        self._events = c_void_p()
        library.nvmlEventSetCreate(byref(self._events))
        for gpu in self.gpus:  # one that has no such events refuses
            library.nvmlDeviceRegisterEvents(gpu.handle, c_ulonglong(XID_EVENTS), self._events)

    def wait_for_xid(self, seconds: float) -> tuple[Gpu, int] | None:
        """Wait for the next Xid, an error of a GPU that the driver reports; None: none came."""
        event, milliseconds = Event(), c_uint(round(1000 * seconds))
        code = self._library.nvmlEventSetWait_v2(self._events, byref(event), milliseconds)
        if code == TIMEOUT:
            return None
        if code != SUCCESS:  # these GPUs have no events, or a broken one has ended the wait
            time.sleep(seconds)
            return None
        known = (gpu for gpu in self.gpus if gpu.handle.value == event.device)
        return next(known, Gpu(self._library, c_void_p(event.device))), int(event.data)


def open_nvml(library: str = LIBRARY) -> Nvml | None:
    """Return the driver's library; None without an NVIDIA driver, or without GPUs."""
    try:
        loaded = ctypes.CDLL(library)
    except OSError:
        return None
    if loaded.nvmlInit_v2() != SUCCESS:
        return None
    nvml = Nvml(loaded)
    return nvml if nvml.gpus else None


def _handles(library: Any) -> Iterator[c_void_p]:  # noqa: ANN401 - a loaded library
    count = c_uint()
    if library.nvmlDeviceGetCount_v2(byref(count)) != SUCCESS:
        return
    for index in range(count.value):
        handle = c_void_p()
        if library.nvmlDeviceGetHandleByIndex_v2(c_uint(index), byref(handle)) == SUCCESS:
            yield handle
