"""Xids that are faults of a GPU, and the causes of a low clock."""

from ctypes import c_void_p

import pytest

from spotrun.wire import is_of_device
from spotrun_trainer.telemetry.gpu.health import (
    FAULTS,
    bad_memory,
    cause_of_low_clock,
    described,
    fault,
    lost,
)
from spotrun_trainer.telemetry.gpu.nvml import Clock, Gpu

GPU = Gpu(object(), c_void_p())  # a library without functions
GPU.uuid, GPU.serial = "GPU-1", "165"


def clock(mhz: int | None, causes: int = 0) -> Clock:
    return Clock(mhz, 1980, causes, celsius=92, watts=400, most_watts=700)


@pytest.mark.parametrize("xid", sorted(FAULTS))
def test_faults_blame_the_device(xid: int) -> None:
    words = fault(GPU, xid)
    assert words.startswith(f"GPU-1 (serial number 165): this device is faulty: Xid {xid}, ")
    assert is_of_device(words)


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 63, 68, 92, 94, 109, 154])
def test_errors_of_programs_and_repairs_do_not(xid: int) -> None:
    assert fault(GPU, xid) == ""


def test_what_a_device_shows_without_an_xid_is_a_fault_too() -> None:
    assert is_of_device(bad_memory(GPU))
    assert is_of_device(lost(GPU))


@pytest.mark.parametrize(
    ("mhz", "causes", "words"),
    [
        (1980, 0x20, ""),
        (1782, 0x20, ""),
        (1781, 0x20, "it is too hot"),
        (1005, 0x40, "it is too hot"),
        (1005, 0x40 | 0x08, "it is too hot"),
        (1005, 0x80 | 0x08, "its server limits the power"),
        (1005, 0x08, "its board protects it from heat or from a lack of power"),
        (1005, 0x04, "it has reached its power limit"),
        (210, 0x01, ""),  # it has nothing to do
        (1410, 0x02, ""),  # somebody has set it
        (None, 0x20, ""),
    ],
)
def test_only_a_low_clock_has_a_cause(mhz: int | None, causes: int, words: str) -> None:
    assert cause_of_low_clock(clock(mhz, causes)) == words


def test_figures_that_are_not_known_are_left_out() -> None:
    assert described(clock(1005)) == "1005 of 1980 MHz, 92 °C, 400 of 700 W"
    assert described(Clock(1005, 1980, 0, None, None, None)) == "1005 of 1980 MHz"
