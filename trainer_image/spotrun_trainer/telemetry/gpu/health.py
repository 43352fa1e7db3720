"""The meaning of what a GPU's driver reports: faults of the device, and causes of a low clock."""

from collections.abc import Mapping

from spotrun.wire import FAULTY_DEVICE
from spotrun_trainer.telemetry.gpu.nvml import Clock, Gpu

FAULTS: Mapping[int, str] = {
    46: "it stopped working",
    48: "its memory has an error that cannot be corrected",
    62: "its internal controller stopped",
    64: "a bad part of its memory cannot be replaced",
    74: "NVLink failed",
    79: "it has fallen off the bus",
    95: "its memory has an error that is not contained in one process",
    110: "it reported a security fault",
    119: "its system processor does not answer",
    120: "its system processor failed",
    136: "a link could not be trained",
    140: "its memory has an error that was not recovered",
    143: "it could not be initialized",
    155: "NVLink failed",
    156: "a part of it was retired",
    158: "it did not answer in time",
}
"""The Xids for which NVIDIA's catalogue says at once: reset the GPU or restart the machine, or, for
48 and 74, find out which of these.

Others mostly come from programs (13 and 31: an access to memory that is not theirs), or need
nothing but another start (94: an error in the memory of one process). 109 may be either.
"""

_CAUSES = (
    (0x20 | 0x40, "it is too hot"),
    (0x80, "its server limits the power"),
    (0x08, "its board protects it from heat or from a lack of power"),
    (0x04, "it has reached its power limit"),
)
"""Bits of `nvmlClocksEventReasons`; the first cause that holds is told."""
LOW_CLOCK = 0.9
"""A clock below this part of the highest one is low."""


def fault(gpu: Gpu, xid: int) -> str:
    """Return the words for an Xid that is a fault of the GPU; empty for any other."""
    return f"{gpu.name}: {FAULTY_DEVICE}: Xid {xid}, {FAULTS[xid]}" if xid in FAULTS else ""


def bad_memory(gpu: Gpu) -> str:
    """Return the words for memory with a bad row that cannot be replaced."""
    return f"{gpu.name}: {FAULTY_DEVICE}: {FAULTS[64]}"


def lost(gpu: Gpu) -> str:
    """Return the words for a GPU that has stopped to answer."""
    return f"{gpu.name}: {FAULTY_DEVICE}: the driver has lost it"


def cause_of_low_clock(clock: Clock) -> str:
    """Return why a clock is low; empty if it is not, or if nothing explains it."""
    if clock.mhz is None or clock.most_mhz is None or clock.mhz >= LOW_CLOCK * clock.most_mhz:
        return ""
    return next((cause for bits, cause in _CAUSES if clock.causes & bits), "")


def described(clock: Clock) -> str:
    """Return the figures of a clock, for the log."""
    heat = "" if clock.celsius is None else f", {clock.celsius} °C"
    power = "" if clock.watts is None else f", {clock.watts} of {clock.most_watts} W"
    return f"{clock.mhz} of {clock.most_mhz} MHz{heat}{power}"
