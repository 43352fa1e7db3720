"""The agent's watch of its worker's GPUs."""

from functools import partial
from pathlib import Path

import pytest

from spotrun_trainer.telemetry.gpu.gpu_watch import FAULT_SECONDS, NO_GPUS, SLOW_LOOKS, GpuWatch
from spotrun_trainer.telemetry.gpu.nvml import open_nvml
from tests.support.gpu.nvml_library import FakeGpu, describe, report_xid

HOT = FakeGpu(mhz=1005, causes=0x20)


@pytest.fixture
def watch(library: str, gpus: Path) -> GpuWatch:
    describe(gpus, [FakeGpu(), FakeGpu("GPU-2", "166")])
    watch = GpuWatch(partial(open_nvml, library))
    assert watch.open()
    return watch


def test_the_first_fault_stays(watch: GpuWatch, gpus: Path) -> None:
    for gpu, xid in ((0, 31), (1, 79), (0, 48)):
        report_xid(gpus, xid, gpu)
        watch.look(60)
        assert ("Xid 79" in watch.fault) is (xid != 31)
    assert watch.fault.startswith("GPU-2 (serial number 166): ")


def test_a_fault_explains_no_failure_long_after_it(watch: GpuWatch, gpus: Path) -> None:
    now = 1000.0
    watch._clock = lambda: now
    for seconds, xid, told in ((0.0, 79, "Xid 79"), (FAULT_SECONDS + 1, 31, ""), (0, 48, "Xid 48")):
        now += seconds
        report_xid(gpus, xid)
        watch.look(60)
        assert told in watch.fault
        assert bool(watch.fault) is bool(told)


def test_a_gpu_that_stops_to_answer_is_a_fault(watch: GpuWatch, gpus: Path) -> None:
    describe(gpus, [FakeGpu(), FakeGpu("GPU-2", "166", lost=1)])
    watch.look(0)
    assert watch.fault == "GPU-2 (serial number 166): this device is faulty: the driver has lost it"


def test_a_low_clock_is_told_while_it_lasts(watch: GpuWatch, gpus: Path) -> None:
    told = "GPU-1 (serial number 1650923000123): it is too hot"
    describe(gpus, [HOT])
    looks = [_look(watch) for _ in range(SLOW_LOOKS + 1)]
    assert looks == [*[""] * (SLOW_LOOKS - 1), told, told]
    describe(gpus, [FakeGpu()])
    assert _look(watch) == ""


def test_short_or_changing_causes_are_not_told(watch: GpuWatch, gpus: Path) -> None:
    for causes in (0x20, 0x20, 0x04, 0x04, 0x20, 0x20, 0, 0x20):
        describe(gpus, [FakeGpu(mhz=1005, causes=causes)])
        assert _look(watch) == ""


def test_the_busiest_look_of_the_last_minute_counts(watch: GpuWatch, gpus: Path) -> None:
    for first, second, told in ((0, 40, None), *((0, 3, None),) * 10, (0, 3, 0.4), (0, 3, 0.03)):
        describe(gpus, [FakeGpu(busy=first), FakeGpu("GPU-2", "166", busy=second)])
        watch.look(0)
        assert watch.busy == told


def test_the_thread_finds_an_xid_at_once(watch: GpuWatch, gpus: Path) -> None:
    assert watch.begin() is watch
    report_xid(gpus, 79)
    while not watch.fault:  # the test's time limit ends it
        pass
    assert "Xid 79" in watch.fault


@pytest.mark.parametrize(("rows", "is_fault"), [(0, False), (1, False), (2, True)])
def test_memory_that_cannot_be_repaired_is_a_fault_from_the_start(
    library: str, gpus: Path, rows: int, *, is_fault: bool, caplog: pytest.LogCaptureFixture
) -> None:
    describe(gpus, [FakeGpu(rows=rows)])
    watch = GpuWatch(partial(open_nvml, library))
    watch.open()
    assert ("a bad part of its memory cannot be replaced" in watch.fault) is is_fault
    assert ("at the next reset" in caplog.text) is (rows == 1)


def test_without_gpus_nothing_is_known() -> None:
    assert not NO_GPUS.open()
    NO_GPUS.look(60)
    assert (NO_GPUS.fault, NO_GPUS.low_clock) == ("", "")


def _look(watch: GpuWatch) -> str:
    watch.look(0)
    return watch.low_clock
