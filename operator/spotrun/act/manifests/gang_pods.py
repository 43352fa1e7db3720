"""The pods of workers that are created together: each distinct pod is computed only once."""

from dataclasses import replace

from spotrun.act.manifests.plain_json import Manifest
from spotrun.act.manifests.worker_pod import trainer_of, worker_pod
from spotrun.act.manifests.worker_settings import Settings
from spotrun.api import names
from spotrun.state.actions import Create
from spotrun.state.names import worker_name
from spotrun.state.snapshot import JobSnapshot


class GangPods:
    """Makes the manifests of a job's workers; in a gang mostly only the worker ids differ."""

    def __init__(self, job: JobSnapshot, settings: Settings) -> None:
        self._job = job
        self._settings = settings
        self._alike: dict[Create, Manifest] = {}

    def manifest(self, worker: Create) -> Manifest:
        """Return what `worker_pod` returns; manifests share parts, so do not change one."""
        kind = replace(worker, worker_id=0, slot=0)
        pod = self._alike.get(kind)
        if pod is None:
            self._alike[kind] = made = worker_pod(self._job, worker, self._settings)
            return made
        return _renumbered(pod, self._job, worker)


def _renumbered(pod: Manifest, job: JobSnapshot, worker: Create) -> Manifest:
    """Return the pod of another worker of the same place: its name, labels and one variable."""
    name = worker_name(job.name, job.uid, worker.worker_id)
    labels = {**pod["metadata"]["labels"], str(names.LABEL_WORKER_ID): str(worker.worker_id)}
    if job.spec.workers.per_replica > 1:
        labels[str(names.LABEL_SLOT)] = str(worker.slot)
    spec = pod["spec"]
    trainer = trainer_of(spec)
    own = {"name": str(names.ENV_WORKER), "value": name}
    env = [own if one["name"] == names.ENV_WORKER else one for one in trainer["env"]]
    named = {**trainer, "env": env}
    containers = [named if one is trainer else one for one in spec["containers"]]
    return {
        **pod,
        "metadata": {**pod["metadata"], "name": name, "labels": labels},
        "spec": {**spec, "containers": containers},
    }
