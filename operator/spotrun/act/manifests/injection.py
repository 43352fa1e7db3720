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

    All workers of a world have one version. So while some are alive, a new one gets the image of
    the one with the lowest rank, even if the installation or the job names another by now. The
    first worker gets the one that these name.
    """
    ranks = {worker_id: rank for rank, worker_id in enumerate(training(job.status))}
    living = [one.pod for one in job.workers if _is_living(one.pod, job.template)]
    # A stuck pod may be one that cannot pull this image. A member of the world has pulled it: if
    # it is stuck, then because of a sidecar.
    found = [pod for pod in living if pod.worker_id in ranks or not pod.stuck]
    if found:
        return min(found, key=lambda p: (ranks.get(p.worker_id, len(ranks)), p.worker_id)).injected
    return settings.inject_image if _is_injected(job.spec.workers, settings) else ""


def _is_living(pod: Pod, template: str) -> bool:
    has_ended = pod.is_over or pod.end is not None
    return pod.template == template and not (has_ended or pod.deleting)


def _is_injected(workers: Workers, settings: Settings) -> bool:
    """Whether the package is injected: the installation names an image, and the job's is not ours.

    The operator cannot look into an image. So any other image gets the package, and a spotrun that
    it may contain is not used.
    """
    trainer = workers.template.spec.trainer
    is_ours = trainer is not None and trainer.image == settings.trainer_image
    return workers.inject is Inject.AUTO and bool(settings.inject_image) and not is_ours


def inject(spec: Manifest, trainer: Manifest, image: str) -> None:
    """Have an init container bring the package, and the trainer run torchrun by its launcher.

    It runs before all other init containers, and never requests more than the containers that run
    later.
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
    """Return a mount over the path of the service account's token, if the pod has a token.

    Kubernetes mounts no token at a path where a container has a mount of its own.
    """
    if not spec["automountServiceAccountToken"]:
        return []
    return [{"name": VOLUME, "mountPath": _ACCOUNT, "readOnly": True}]


def _resources(trainer: Manifest) -> Manifest:
    """Return the trainer's CPU, memory and disk, so that the pod's request stays the same.

    Its QoS class stays the same too, and quotas that demand requests accept the pod.
    """
    kinds = ((kind, trainer.get(kind) or {}) for kind in ("requests", "limits"))
    return {
        kind: copied
        for kind, amounts in kinds
        if (copied := {name: amounts[name] for name in _COPIED_RESOURCES if name in amounts})
    }


def _security(pod: Manifest) -> Manifest:
    """Return the least rights that copying needs; the user is the pod's, but never root."""
    context: Manifest = {
        "runAsNonRoot": True,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    return {**context, "runAsUser": _USER} if pod.get("runAsUser") == 0 else context
