"""Devices claimed through dynamic resource allocation: how many a claim is for is not looked up.

Who claims GPUs has to say how many processes drive them: to train with one on a worker of eight
would waste seven, and nobody would notice.
"""

from typing import Any

from spotrun.api.status import TrainingJobStatus
from spotrun.decide.crew import training
from spotrun.decide.view import View

MUST_BE_SAID = (
    "the container that trains is given devices by resources.claims, which are not counted: set "
    "workers.processes, and suspend: true in the same change"
)


def lacks_processes(view: View, status: TrainingJobStatus) -> bool:
    """Whether nobody knows how many processes a worker is to run; a world that trains goes on."""
    job = view.job
    if job.spec.workers.processes is not None or job.requests.gpus or training(status):
        return False
    trainer = job.spec.workers.template.spec.trainer
    extra: dict[str, Any] = (trainer.model_extra or {}) if trainer is not None else {}
    resources = extra.get("resources")
    return isinstance(resources, dict) and bool(resources.get("claims"))
