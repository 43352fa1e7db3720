import os
from collections.abc import Iterator

import pytest

from spotrun.wire import Utilization
from spotrun_trainer.telemetry.container_usage import Sample
from spotrun_trainer.telemetry.meter import Activity, Meter
from spotrun_trainer.telemetry.utilization import (
    IDLE_LOOKS,
    UtilizationReport,
    busiest_gpu,
    open_utilization_report,
)


@pytest.fixture
def meter() -> Meter:
    now = 0

    def clock() -> int:
        return now

    meter = Meter(clock=clock)
    meter.step_done()
    with meter.span("data"):
        now += 600_000_000
    with meter.span("communicate"):
        now += 200_000_000
    now += 1_200_000_000
    meter.step_done()
    return meter


def test_gpu_is_the_compute_share_of_recent_steps(meter: Meter) -> None:
    vitals = UtilizationReport(meter, lambda: Sample(cpu=0.25, memory=0.5))

    assert vitals() == {
        "step_seconds": pytest.approx(2.0),
        "compute": pytest.approx(0.6),
        "data": pytest.approx(0.3),
        "communicate": pytest.approx(0.1),
        "checkpoint_seconds": 0.0,
        "utilization": Utilization(gpu=pytest.approx(0.6), cpu=0.25, memory=0.5),  # type: ignore[arg-type]
    }


def test_before_there_is_a_step_its_length_and_share_are_unknown() -> None:
    vitals = UtilizationReport(Meter(), lambda: Sample(memory=0.5))

    assert vitals() == {
        "step_seconds": None,
        "checkpoint_seconds": 0.0,
        "utilization": Utilization(memory=0.5),
    }


def test_a_correction_that_comes_late_makes_no_share_beyond_all() -> None:
    now = 0

    class Late:
        def enter(self) -> None: ...

        def leave(self, activity: Activity, host_nanoseconds: int) -> None: ...

        def hidden(self) -> list[tuple[Activity, int]]:
            return [("data", 1_000_000_000)] if now else []

    meter = Meter(device=Late(), clock=lambda: now)
    meter.step_done()
    now += 2_000_000_000
    meter.step_done()

    assert UtilizationReport(meter, Sample)()["utilization"].gpu == 1.0


def looks(meter: Meter, shares: Iterator[float | None], samples: int) -> list[float | None]:
    """What is told at each of so many samples."""
    vitals = UtilizationReport(meter, Sample, lambda: next(shares))
    return [vitals()["utilization"].gpu for _ in range(samples)]


def test_gpus_that_do_nothing_for_long_are_idle_whatever_the_loop_does(meter: Meter) -> None:
    busy = pytest.approx(0.6)
    assert IDLE_LOOKS == 3
    assert looks(meter, iter([0, 0, 0, 0, 0.01]), 5) == [busy, busy, 0.0, 0.0, busy]
    assert looks(meter, iter([0, 0, 0.5, 0, 0, 0]), 6) == [busy, busy, busy, busy, busy, 0.0]
    assert looks(meter, iter([None] * 5), 5) == [busy] * 5


def test_a_gpu_is_looked_at_once_for_a_sample(meter: Meter) -> None:
    sample = Sample(cpu=0.1)
    vitals = UtilizationReport(meter, lambda: sample, iter([0.0]).__next__)

    assert [vitals()["utilization"].gpu for _ in range(5)] == [pytest.approx(0.6)] * 5


def test_without_a_gpu_nvml_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)

    assert busiest_gpu() is None


def test_a_gpu_without_nvml_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_device: int) -> int:
        raise ModuleNotFoundError("pynvml module not found, please install nvidia-ml-py")

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.utilization", refuse)
    assert busiest_gpu() is None

    monkeypatch.setattr("torch.cuda.utilization", [10, 70].__getitem__)
    assert busiest_gpu() == 0.7


@pytest.mark.parametrize(
    ("env", "pid"),
    [
        pytest.param({}, os.getpid(), id="alone"),
        pytest.param({"TORCHELASTIC_RUN_ID": "x"}, os.getppid(), id="below torchrun"),
    ],
)
def test_a_worker_is_all_that_its_torchrun_has_started(env: dict[str, str], pid: int) -> None:
    vitals = open_utilization_report(Meter(), env)

    assert vitals._usage.__self__._pid == pid  # type: ignore[attr-defined]
    assert vitals()["utilization"].memory > 0
