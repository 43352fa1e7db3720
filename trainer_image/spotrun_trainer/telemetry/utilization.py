"""The measured fields of a worker's report: length of a step, and utilization."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch

from spotrun.wire import Utilization
from spotrun_trainer.telemetry.container_usage import Sample, Usage
from spotrun_trainer.telemetry.meter import Meter, Recent

IDLE_LOOKS = 3
"""A GPU that was idle at this many samples is idle, even if its process's times say otherwise."""


class UtilizationReport:
    """Combines the measurements of meter, cgroup and GPU.

    `gpu` is the compute share of a step: busy without waiting for data or other processes. What
    NVML calls utilization counts a kernel that waits for the network as work, so it is used for one
    question only: whether the GPUs do nothing at all.
    """

    def __init__(
        self,
        meter: Meter,
        usage: Callable[[], Sample],
        busiest_gpu: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._meter = meter
        self._usage = usage
        self._busiest_gpu = busiest_gpu
        self._sample: Sample | None = None
        self._idle_looks = 0

    def __call__(self) -> dict[str, Any]:
        """Return fields of a `TrainerProgress`."""
        recent = self._meter.recent()
        sample = self._usage()
        if sample is not self._sample:  # no more often than the others
            self._sample = sample
            self._idle_looks = self._idle_looks + 1 if self._busiest_gpu() == 0 else 0
        is_idle = self._idle_looks >= IDLE_LOOKS
        shares = _shares(recent) if recent else {}
        gpu = 0.0 if is_idle else shares.get("compute")
        return {
            **shares,
            "step_seconds": recent and recent.step_seconds,
            "checkpoint_seconds": self._meter.saving_seconds,
            "utilization": Utilization(gpu=gpu, cpu=sample.cpu, memory=sample.memory),
        }


def _shares(recent: Recent) -> dict[str, float]:
    # A GPU's events come late, so a span's correction can fall into the window after it.
    parts = {name: getattr(recent, name) for name in ("compute", "data", "communicate")}
    return {name: min(1.0, max(0.0, share)) for name, share in parts.items()}


def open_utilization_report(meter: Meter, env: Mapping[str, str] = os.environ) -> UtilizationReport:
    """Return the report of this process, or of its whole worker under torchrun."""
    pid = os.getppid() if "TORCHELASTIC_RUN_ID" in env else os.getpid()
    return UtilizationReport(meter, Usage(pid).sample, busiest_gpu)


def busiest_gpu() -> float | None:
    """Return NVML's utilization of the busiest GPU, from 0 to 1; None without GPU or pynvml."""
    if not torch.cuda.is_available():
        return None
    try:
        return max(map(torch.cuda.utilization, range(torch.cuda.device_count()))) / 100
    except Exception:  # pynvml is not there, or has an error of its own kind
        return None
