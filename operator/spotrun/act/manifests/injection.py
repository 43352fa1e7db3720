"""The package in images that do not have it: an init container copies it into the pod. Pure."""

from spotrun.act.manifests.plain_json import Manifest
from spotrun.act.manifests.worker_settings import Settings
from spotrun.api.spec.workers import Inject, Workers
from spotrun.state.snapshot import JobSnapshot, Pod
from spotrun.state.world_members import training

CONTAINER = "spotrun-inject"
VOLUME = "spotrun-package"
FOLDER = "/opt/spotrun-package"
SHELL = "/bin/sh"

_START = f"{FOLDER}/spotrun_trainer/agent/launch/start.sh"
_BRING = ["python3", "-m", "spotrun_trainer.agent.launch.bring", FOLDER]
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_USER = 65532  # the images' own
_SIZE_LIMIT = "64Mi"
_COPIED_RESOURCES = ("cpu", "memory", "ephemeral-storage")


def image_for(job: JobSnapshot, settings: Settings) -> str:
    """Return the image that brings the package into the next worker; empty if none does.

    Workers of a world are of one version. So while some live, a new one gets what those have, by
    rank, also if the installation or the job says otherwise by now; the first of all gets that.
    """
    ranks = {worker_id: rank for rank, worker_id in enumerate(training(job.status))}
    living = [one.pod for one in job.workers if _is_living(one.pod, job.template)]
    # Who is stuck may lack this very image; but a member has it, and one of its sidecars is stuck.
    found = [pod for pod in living if pod.worker_id in ranks or not pod.stuck]
    if found:
        return min(found, key=lambda p: (ranks.get(p.worker_id, len(ranks)), p.worker_id)).injected
    return settings.inject_image if _is_injected(job.spec.workers, settings) else ""


def _is_living(pod: Pod, template: str) -> bool:
    has_ended = pod.is_over or pod.end is not None
    return pod.template == template and not (has_ended or pod.deleting)


def _is_injected(workers: Workers, settings: Settings) -> bool:
    """Whether the package is brought: the installation says from where, and the image is not ours.

    Nobody can look into an image, so any other gets it, and what it has of spotrun is not used.
    """
    trainer = workers.template.spec.trainer
    is_ours = trainer is not None and trainer.image == settings.trainer_image
    return workers.inject is Inject.AUTO and bool(settings.inject_image) and not is_ours


def inject(spec: Manifest, trainer: Manifest, image: str) -> None:
    """Have an init container bring the package, and the trainer run torchrun by its launcher.

    It comes before all other init containers: what it asks for is never more than the containers
    that run later.
    """
    mount = {"name": VOLUME, "mountPath": FOLDER}
    container: Manifest = {
        "name": CONTAINER,
        "image": image,
        "command": _BRING,
        "resources": _resources(trainer.get("resources") or {}),
        "volumeMounts": [mount, *_over_the_token(spec)],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": _security(spec.get("securityContext") or {}),
    }
    spec["initContainers"] = [container, *(spec.get("initContainers") or ())]
    volume = {"name": VOLUME, "emptyDir": {"sizeLimit": _SIZE_LIMIT}}
    spec["volumes"] = [*(spec.get("volumes") or ()), volume]
    mounts = trainer.get("volumeMounts") or ()
    trainer["volumeMounts"] = [*mounts, {**mount, "readOnly": True}]
    _, *arguments = trainer["command"]
    trainer["command"] = [SHELL, _START, *arguments]


def _over_the_token(spec: Manifest) -> list[Manifest]:
    """Return a mount in the place of the account's token, if the pod has one.

    Kubernetes mounts no token where a container mounts anything itself.
    """
    if not spec["automountServiceAccountToken"]:
        return []
    return [{"name": VOLUME, "mountPath": _ACCOUNT, "readOnly": True}]


def _resources(trainer: Manifest) -> Manifest:
    """Return what the trainer has of CPU, memory and disk: so the pod's request stays the same.

    Its class of service stays the same, too, and quotas that want requests are content.
    """
    kinds = ((kind, trainer.get(kind) or {}) for kind in ("requests", "limits"))
    return {
        kind: copied
        for kind, amounts in kinds
        if (copied := {name: amounts[name] for name in _COPIED_RESOURCES if name in amounts})
    }


def _security(pod: Manifest) -> Manifest:
    """Return the least that copying needs; the user is the pod's, but never root."""
    context: Manifest = {
        "runAsNonRoot": True,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    return {**context, "runAsUser": _USER} if pod.get("runAsUser") == 0 else context
