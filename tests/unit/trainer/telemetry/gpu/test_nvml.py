"""The C interface of NVML, against a library of the same interface, and against NVIDIA's module."""

import ctypes
from pathlib import Path

import pynvml
import pytest

from spotrun_trainer.telemetry.gpu import nvml
from spotrun_trainer.telemetry.gpu.nvml import Busy, Clock, Event, open_nvml
from tests.support.gpu.nvml_library import FakeGpu, describe, report_xid


def test_gpus_tell_what_they_are_and_how_they_run(library: str, gpus: Path) -> None:
    describe(
        gpus,
        [FakeGpu(causes=0x20), FakeGpu("GPU-2", serial="", mhz=1005, busy=20, rows=2)],
    )
    found = open_nvml(library)
    assert found is not None
    first, second = found.gpus
    assert (first.name, second.name) == ("GPU-1 (serial number 1650923000123)", "GPU-2")
    assert first.clock() == Clock(1980, 1980, 0x20, celsius=50, watts=300, most_watts=700)
    assert (first.bad_rows(), second.bad_rows()) == ((False, False), (False, True))
    assert (first.busy(), second.busy()) == (0.9, 0.2)
    assert second.clock().mhz == 1005


def test_a_lost_gpu_tells_nothing(library: str, gpus: Path) -> None:
    describe(gpus, [FakeGpu()])
    found = open_nvml(library)
    assert found is not None
    assert not found.gpus[0].is_lost
    describe(gpus, [FakeGpu(lost=1)])
    assert found.gpus[0].clock() == Clock(None, None, 0, None, None, None)
    assert found.gpus[0].is_lost


def test_an_xid_comes_with_its_gpu(library: str, gpus: Path) -> None:
    describe(gpus, [FakeGpu(), FakeGpu("GPU-2")])
    found = open_nvml(library)
    assert found is not None
    report_xid(gpus, 79, gpu=1)
    assert found.wait_for_xid(60) == (found.gpus[1], 79)
    assert found.wait_for_xid(0) is None


def test_without_a_driver_there_is_nothing() -> None:
    assert open_nvml("libnvidia-none.so.1") is None


@pytest.mark.gpu
def test_a_real_driver_says_the_same_to_us_and_to_nvidias_module() -> None:
    found = open_nvml()
    assert found is not None
    pynvml.nvmlInit()
    for index, gpu in enumerate(found.gpus):
        theirs = pynvml.nvmlDeviceGetHandleByIndex(index)
        assert gpu.uuid == pynvml.nvmlDeviceGetUUID(theirs)
        clock = gpu.clock()
        assert clock.most_mhz == pynvml.nvmlDeviceGetMaxClockInfo(theirs, pynvml.NVML_CLOCK_SM)
        assert 0 < (clock.mhz or 0) <= (clock.most_mhz or 0)
        most_watts = pynvml.nvmlDeviceGetEnforcedPowerLimit(theirs) / 1000
        assert clock.most_watts == pytest.approx(most_watts, abs=1)
        assert gpu.busy() is not None
        assert not gpu.is_lost
    assert found.wait_for_xid(0.1) is None


def test_a_driver_without_gpus_is_nothing(library: str, gpus: Path) -> None:
    gpus.touch()
    assert open_nvml(library) is None


def test_types_and_numbers_are_those_of_nvidia() -> None:
    theirs = pynvml.c_nvmlEventData_t
    assert ctypes.sizeof(Event) == ctypes.sizeof(theirs)
    names = dict(
        zip((name for name, _ in Event._fields_), (one[0] for one in theirs._fields_), strict=True)
    )
    assert ctypes.sizeof(Busy) == ctypes.sizeof(pynvml.c_nvmlUtilization_t)
    assert Busy.gpu.offset == pynvml.c_nvmlUtilization_t.gpu.offset
    for ours, their_name in names.items():
        assert getattr(Event, ours).offset == getattr(theirs, their_name).offset
        assert getattr(Event, ours).size == getattr(theirs, their_name).size
    assert nvml.SUCCESS == pynvml.NVML_SUCCESS
    assert nvml.TIMEOUT == pynvml.NVML_ERROR_TIMEOUT
    assert nvml.GPU_IS_LOST == pynvml.NVML_ERROR_GPU_IS_LOST
    assert pynvml.nvmlEventTypeXidCriticalError == nvml.XID_EVENTS
    assert nvml.SM_CLOCK == pynvml.NVML_CLOCK_SM
    assert nvml.GPU_TEMPERATURE == pynvml.NVML_TEMPERATURE_GPU
    assert nvml._TEXT >= pynvml.NVML_DEVICE_UUID_BUFFER_SIZE


def test_nvidias_module_reads_the_same_from_the_library(
    library: str, gpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the stand-in has NVML's interface, not only that of our own calls."""
    describe(gpus, [FakeGpu(causes=0x40, celsius=91, rows=1)])
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(library))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetUUID(gpu) == "GPU-1"
    assert pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM) == 1980
    assert pynvml.nvmlDeviceGetMaxClockInfo(gpu, pynvml.NVML_CLOCK_SM) == 1980
    assert pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu) == 0x40
    assert pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU) == 91
    assert pynvml.nvmlDeviceGetPowerUsage(gpu) == 300_000
    assert pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) == 700_000
    assert pynvml.nvmlDeviceGetRemappedRows(gpu) == (0, 1, 1, 0)
    assert pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu == 90
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(gpu, pynvml.nvmlEventTypeXidCriticalError, events)
    report_xid(gpus, 48)
    told = pynvml.nvmlEventSetWait_v2(events, 60_000)
    assert (told.eventType, told.eventData) == (pynvml.nvmlEventTypeXidCriticalError, 48)
