"""Defaults that follow from a job's template before any pod is created from it."""

from typing import Any

from spotrun.api.field_types.amounts import whole
from spotrun.api.spec.template import PodTemplate
from spotrun.api.spec.workers import Workers
from spotrun.state.snapshot import JobSnapshot

Manifest = dict[str, Any]

GPUS = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "aws.amazon.com/neuron",
)
"""Extended resources of which each training process uses one."""
NVIDIA_SLICE = "nvidia.com/mig-"


def processes(job: JobSnapshot) -> int:
    """Return the training processes per worker: the user's number, else the GPUs, else one."""
    return processes_of(job.spec.workers, job.claimed)


def processes_of(workers: Workers, claimed: int = 0) -> int:
    """Return the training processes per worker if `claimed` GPUs come from device claims."""
    return workers.processes or num_gpus(workers.template) or claimed or 1


def num_gpus(template: PodTemplate) -> int:
    """Return the GPUs in the limits of the container that trains."""
    return sum(gpu_limits(template).values())


def gpu_limits(template: PodTemplate) -> dict[str, int]:
    """Return the GPUs in the limits of the container that trains, by the name of the resource."""
    trainer = template.spec.trainer
    resources = (trainer.model_extra or {}).get("resources") if trainer is not None else None
    limits = resources.get("limits") if isinstance(resources, dict) else None
    if not isinstance(limits, dict):
        return {}
    return {
        name: count
        for name, amount in limits.items()
        if (name in GPUS or name.startswith(NVIDIA_SLICE))
        and (count := whole(str(amount))) is not None
    }
